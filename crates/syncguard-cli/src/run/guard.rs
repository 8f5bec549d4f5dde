//! The lock, permit or place that a command runs under.

use std::pin::Pin;

use syncguard::{Held, LockError, NotHeld, ReleaseResult};

/// A lock, a permit, or a part of a read/write lock, and how it is given back.
pub(super) struct Guard {
    pub(super) held: Held,
    /// The number of the permit, or of the slot of a reader.
    pub(super) slot: Option<u32>,
    /// Gives it back. If this is dropped, it is given back in the background.
    pub(super) release: Pin<Box<dyn Future<Output = Result<ReleaseResult, LockError>>>>,
}

impl Guard {
    /// The release owns the guard.
    pub(super) fn new(
        held: Held,
        slot: Option<u32>,
        release: impl Future<Output = Result<ReleaseResult, LockError>> + 'static,
    ) -> Self {
        Self { held, slot, release: Box::pin(async { unless_lost(release.await) }) }
    }
}

/// The result of a release. If the record is lost, another holder may have run, as if the store did not know the lock.
pub(super) fn unless_lost(
    released: Result<ReleaseResult, LockError>,
) -> Result<ReleaseResult, LockError> {
    match released {
        Err(error) if error.is_record_lost() => Ok(ReleaseResult::NotHeld(NotHeld::NotFound)),
        released => released,
    }
}
