//! The contract of SyncGuard: distributed locks with fencing tokens, on the store you already have.
//!
//! This crate has the parts that all backends share, and the functions that users call. It knows no store.
//!
//! ```
//! use std::time::Duration;
//! use syncguard_core::{Fence, LockBackend, LockConfig, LockError, run};
//!
//! # async fn charge(_: Fence) -> Result<(), LockError> { Ok(()) }
//! /// With any store that the program uses.
//! async fn pay(backend: &impl LockBackend<Fence = Fence>) -> Result<(), LockError> {
//!     let payment = LockConfig::new("payment:123").with_ttl(Duration::from_secs(10));
//!     run(backend, payment, async |held| charge(held.fence()).await).await
//! }
//! ```
//!
//! - **Users** [`run`](crate::run()) work under a lock, hold a [`LockGuard`], or configure a [`Locker`] once.
//!   They depend on the `syncguard` facade or on one backend crate, which re-exports this one.
//! - **Authors of backends** implement [`LockBackend`]. The module [`authoring`] has the parts that every backend
//!   needs, and the `syncguard-conformance` crate proves the result.
//!
//! The guide for both is in the documentation of the `syncguard` crate, in its module `guide`.
//!
//! Programs may rely on these rules on every backend:
//!
//! - A key has at most one holder at a time, by the store's clock.
//! - Every acquisition of a key carries a [`Fence`] above all earlier ones, across restarts.
//! - Every lock expires; a crash blocks nobody for longer than the TTL plus [`TIME_TOLERANCE`](contract::TIME_TOLERANCE).
//! - Only a caller with the [`LockId`] can release and extend the lock.
//! - Contention is an answer; a [`LockError`] is a failure that an operator should look at.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-core/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

pub mod authoring;
mod backend;
mod cancel;
mod client;
pub mod contract;
pub mod diagnostics;
pub mod inventory;
mod locking;
pub mod observe;
mod rt;
mod util;
mod value;

/// The state that all clones of a backend share: the queues of waiters, the releases that no caller waits for, and what
/// hears of those that fail.
pub mod shared {
    pub use crate::client::{ClientState, ReleaseErrorContext, ReleaseErrorHandler, ReleaseSource};
}

pub use tokio_util::sync::CancellationToken;

pub use self::authoring::{Credentials, CredentialsProvider};
pub use self::backend::{DynBackend, LockBackend};
pub use self::contract::info::LockInfo;
pub use self::contract::loss_reason::LossReason;
pub use self::contract::response::{Contention, ExtendResult, NotHeld, ReleaseResult};
pub use self::locking::{
    AcquisitionOptions, AutoExtend, Backoff, Held, Jitter, LockConfig, LockGuard, Locker,
    TryAcquired, acquire, lock, run, try_acquire,
};
pub use self::value::{ErrorCode, Fence, IntoKey, IntoTtl, Key, LockError, LockId, Timestamp, Ttl};

// Compiles the examples of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
