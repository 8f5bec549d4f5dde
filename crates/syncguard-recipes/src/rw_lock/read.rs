//! A read.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use syncguard_core::{Held, LockBackend, LockError, NotHeld, ReleaseResult};

use super::process::{Reads, Share, Slot};

/// A read of an [`RwLock`](crate::RwLock). Dropping it ends the read; the last read of a process gives its slot back, in the
/// background.
///
/// The fence, and how long no writer certainly writes, are those of [`Held`], to which the read dereferences. A read is lost
/// when its process has lost the slot.
///
/// The fence is the place of this read among the writes: no write before it has a larger fence, and every write after it
/// has one. Reads of one process can have the same fence. If the data has a larger fence than this one, a writer came after
/// the end of this read.
#[must_use = "dropping the guard ends the read"]
pub struct ReadGuard<B: LockBackend> {
    slot: Arc<Slot<B>>,
    _reads: Reads<B>,
}

impl<B: LockBackend> ReadGuard<B> {
    pub(super) fn new(Share { slot, reads }: Share<B>) -> Self {
        Self { slot, _reads: reads }
    }

    /// The number of the slot, from 0, that all readers of this process have together.
    #[must_use]
    pub fn slot(&self) -> u32 {
        self.slot.number
    }

    /// A view of the read, to pass on to the work.
    #[must_use]
    pub fn held(&self) -> Held<B::Fence> {
        self.slot.held.clone()
    }

    /// Ends the read, and returns whether no writer wrote until now. Only the last read of a process sends something.
    ///
    /// # Errors
    ///
    /// As [`LockGuard::release`](syncguard_core::LockGuard::release), for the last read.
    ///
    /// # Cancel safety
    ///
    /// Safe: a dropped release goes on in the background.
    pub async fn release(self) -> Result<ReleaseResult, LockError> {
        let Self { slot, _reads } = self;
        let was_lost = slot.guard.is_lost();
        match Arc::into_inner(slot) {
            Some(slot) => slot.guard.release().await,
            None if was_lost => Ok(ReleaseResult::NotHeld(NotHeld::Expired)),
            None => Ok(ReleaseResult::Released),
        }
    }
}

impl<B: LockBackend> Deref for ReadGuard<B> {
    type Target = Held<B::Fence>;

    fn deref(&self) -> &Self::Target {
        &self.slot.held
    }
}

impl<B: LockBackend> fmt::Debug for ReadGuard<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReadGuard")
            .field("slot", &self.slot())
            .field("guard", &self.slot.guard)
            .finish()
    }
}
