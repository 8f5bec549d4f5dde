//! What a release leaves behind: for recipes.

use std::time::Duration;

use super::LockGuard;
use crate::backend::LockBackend;
use crate::contract::response::ReleaseResult;
use crate::value::{Fence, LockError};

/// For authors of recipes: what [`release_as`] leaves behind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parting {
    /// The lock is free.
    #[default]
    Free,
    /// The lock is free, and the key's fence counter is at least this, in one step. The backend has to
    /// [support fence windows](crate::contract::BackendCapabilities::supports_fence_windows).
    Counter(Fence),
    /// Nobody gets the lock for this time from now on: a pause that all processes keep. The answer is
    /// [`Kept`](ReleaseResult::Kept).
    Pause(Duration),
}

/// For authors of recipes: [releases](LockGuard::release) a lock and leaves this behind, in the one request of the
/// release. A minimum hold of the lock is replaced, unless the parting is [`Parting::Free`].
///
/// # Errors
///
/// As [`LockGuard::release`], and `InvalidArgument` for a counter above [`Fence::MAX`].
///
/// # Cancel safety
///
/// Safe: a dropped release continues in the background, with its parting.
pub async fn release_as<B: LockBackend>(
    guard: LockGuard<B>,
    parting: Parting,
) -> Result<ReleaseResult, LockError> {
    guard.part(parting).await
}
