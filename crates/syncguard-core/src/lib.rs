//! The contract of SyncGuard: distributed locks with fencing tokens, on the store you already have.
//!
//! This crate holds what all backends share and what users do with them. It knows no store.
//!
//! ```
//! use std::time::Duration;
//! use syncguard_core::{Fence, LockBackend, LockConfig, LockError, lock};
//!
//! # async fn charge(_: Fence) {}
//! /// On whatever store the program has.
//! async fn pay(backend: &impl LockBackend<Fence = Fence>) -> Result<(), LockError> {
//!     let payment = LockConfig::new("payment:123").with_ttl(Duration::from_secs(10));
//!     lock(backend, payment, async |held| charge(held.fence()).await).await
//! }
//! ```
//!
//! - **Users** run work under a [`lock()`], hold a [`LockGuard`], or configure a [`Locker`] once.
//!   They depend on the `syncguard` facade or on one backend crate, which re-exports this one.
//! - **Authors of backends** implement [`LockBackend`]; the module [`authoring`] has what every backend
//!   needs, and the `syncguard-conformance` crate proves the result.
//!
//! The guide for both is in the documentation of the `syncguard` crate, in its module `guide`.
//!
//! What may be relied on, on every backend:
//!
//! - At most one holder per key at a time, by the store's clock.
//! - Every acquisition of a key carries a [`Fence`] above all earlier ones, across restarts.
//! - Every lock expires; a crash blocks nobody for longer than the TTL plus [`TIME_TOLERANCE`](contract::TIME_TOLERANCE).
//! - Whoever has the [`LockId`], and nobody else, releases and extends.
//! - Contention is an answer; a [`LockError`] is for what should make someone look.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-core/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod authoring;
pub mod contract;
pub mod diagnostics;
pub mod inventory;
mod locking;
pub mod observe;
mod rt;
mod value;

pub use tokio_util::sync::CancellationToken;

pub use self::contract::backend::LockBackend;
pub use self::contract::dyn_backend::DynBackend;
pub use self::contract::error::{ErrorCode, LockError};
pub use self::contract::info::LockInfo;
pub use self::contract::response::{Contention, ExtendResult, NotHeld, ReleaseResult};
pub use self::locking::{
    AcquisitionOptions, AutoExtend, Backoff, Held, Jitter, LockConfig, LockGuard, Locker,
    LossReason, TryAcquired, acquire, lock, lock_flat, lock_send, try_acquire,
};
pub use self::value::{Fence, IntoKey, IntoTtl, Key, LockId, Timestamp, Ttl};

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
