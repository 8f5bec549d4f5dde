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
//! - **Authors of backends** implement [`LockBackend`]; [`cancel`], [`StoreClock`], [`backend_url`],
//!   [`make_storage_key`], [`make_fence_key`] and [`is_live`] are there for them, and the
//!   `syncguard-conformance` crate proves the result.
//!
//! The guide for both is in the documentation of the `syncguard` crate, in its module `guide`.
//!
//! What may be relied on, on every backend:
//!
//! - At most one holder per key at a time, by the store's clock.
//! - Every acquisition of a key carries a [`Fence`] above all earlier ones, across restarts.
//! - Every lock expires; a crash blocks nobody for longer than the TTL plus [`TIME_TOLERANCE`].
//! - Whoever has the [`LockId`], and nobody else, releases and extends.
//! - Contention is an answer; a [`LockError`] is for what should make someone look.

// On docs.rs, each item says which feature it needs.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![doc(html_root_url = "https://docs.rs/syncguard-core/latest")]
#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod acquire;
mod backend;
pub mod backend_url;
pub mod cancel;
mod capabilities;
mod clean_up;
mod config;
mod contain;
mod diagnostics;
mod dyn_backend;
mod error;
mod fence;
mod guard;
mod hash;
mod key;
mod lock;
mod lock_id;
mod locker;
mod normalize;
mod observer;
mod outcome;
mod pause;
mod release_error;
mod request;
mod rt;
#[cfg(feature = "serde")]
mod serde_form;
mod storage_key;
mod store_clock;
mod time;

pub use tokio_util::sync::CancellationToken;

pub use self::acquire::{acquire, try_lock};
pub use self::backend::LockBackend;
pub use self::capabilities::{BackendCapabilities, TimeAuthority};
pub use self::clean_up::CleanUp;
pub use self::config::{AcquisitionOptions, AutoExtend, Backoff, Jitter, LockConfig};
pub use self::diagnostics::{get_by_id, get_by_id_raw, get_by_key, get_by_key_raw, owns};
pub use self::dyn_backend::DynBackend;
pub use self::error::{ErrorCode, LockError};
pub use self::fence::{Fence, FenceToken, NoFence, has_fence};
pub use self::guard::{Held, LockGuard, LossReason};
pub use self::hash::{HashId, hash_key, hash_key_triple32};
pub use self::key::Key;
pub use self::lock::{lock, lock_send};
pub use self::lock_id::LockId;
pub use self::locker::Locker;
pub use self::observer::{
    AcquisitionEnd, AcquisitionObserved, HoldObserved, LockObserver, Observation,
};
pub use self::outcome::{
    AcquireResult, Acquired, ExtendResult, LockInfo, LockInfoDebug, NotHeld, ReleaseResult,
    corrupt_record,
};
pub use self::release_error::{
    GuardDefaults, ReleaseErrorContext, ReleaseErrorHandler, ReleaseSource,
};
pub use self::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest, ReleaseRequest,
};
pub use self::storage_key::{
    StorageLimits, make_fence_key, make_hashed_storage_key, make_storage_key,
};
pub use self::store_clock::StoreClock;
pub use self::time::{TIME_TOLERANCE, Timestamp, Ttl, checked_timeout, is_live};

// So that what people see first compiles.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
mod readme {}
