//! The effects of a release beside the end of its lock: for recipes.

use std::time::Duration;

use crate::value::Fence;

/// For authors of recipes: what [`release_as`](crate::authoring::recipes::release_as) leaves behind.
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
    /// [`Kept`](crate::ReleaseResult::Kept).
    Pause(Duration),
}
