//! Look-ups of locks and the health of stores, for people, dashboards and tests.
//!
//! An answer may be outdated when it arrives, so a program must not decide by it whether
//! to write: release and extend check ownership themselves, and the fence protects the data.
//! To cancel a look-up by a token, use [`LockBackend::lookup`] with
//! [`LookupRequest::with_cancellation`].

pub use crate::contract::clock_drift::ClockDrift;
pub use crate::contract::health::{Health, HealthFinding, HealthLevel};

use crate::backend::LockBackend;
use crate::contract::info::LockInfo;
use crate::contract::request::LookupRequest;
use crate::value::{IntoKey, LockError, LockId};

/// The live lock of a key. TypeScript: `getByKey`, `getByKeyRaw`.
///
/// # Errors
///
/// `InvalidArgument` for a bad key, and the store's failures.
///
/// # Cancel safety
///
/// Safe: it only reads.
pub async fn get_by_key<B: LockBackend>(
    backend: &B,
    key: impl IntoKey,
) -> Result<Option<LockInfo<B::Fence>>, LockError> {
    backend.lookup(LookupRequest::by_key(key)?).await
}

/// The live lock with this id. TypeScript: `getById`, `getByIdRaw`.
///
/// # Errors
///
/// The store's failures.
///
/// # Cancel safety
///
/// Safe: it only reads.
pub async fn get_by_id<B: LockBackend>(
    backend: &B,
    lock_id: LockId,
) -> Result<Option<LockInfo<B::Fence>>, LockError> {
    backend.lookup(LookupRequest::by_lock_id(lock_id)).await
}

/// True if the lock with this id is live. TypeScript: `owns`.
///
/// # Errors
///
/// As [`get_by_id`].
///
/// # Cancel safety
///
/// Safe: it only reads.
pub async fn owns<B>(backend: &B, lock_id: LockId) -> Result<bool, LockError>
where
    B: LockBackend,
{
    Ok(get_by_id(backend, lock_id).await?.is_some())
}
