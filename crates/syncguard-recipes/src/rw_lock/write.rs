//! A write.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use futures_util::future::join_all;
use syncguard_core::{Held, LockBackend, LockError, LockGuard, ReleaseResult};

use super::process::{Process, Slot};
use super::read::ReadGuard;

/// A write of an [`RwLock`](crate::RwLock). Dropping it ends the write, in the background.
///
/// The fence, and how long certainly nobody else reads or writes, are those of [`Held`] of the gate's lock, to which the write
/// dereferences. The fence is larger than those of all reads and writes before it: send it along with every write.
#[must_use = "dropping the guard ends the write"]
pub struct WriteGuard<B: LockBackend> {
    // Without the gate nobody begins to read or write. The slots were waited for, and a downgrade keeps the first. They
    // are released before the gate, so that the next process finds them free.
    slots: Vec<(u32, LockGuard<B>)>,
    gate: LockGuard<B>,
    process: Arc<Process<B>>,
}

impl<B: LockBackend> WriteGuard<B> {
    pub(super) fn new(
        gate: LockGuard<B>,
        slots: Vec<(u32, LockGuard<B>)>,
        process: Arc<Process<B>>,
    ) -> Self {
        Self { slots, gate, process }
    }

    /// A view of the write, to pass on to the work.
    #[must_use]
    pub fn held(&self) -> Held<B::Fence> {
        self.gate.held()
    }

    /// Ends the write and goes on as a reader, without a moment in which another writer could write. Readers of this
    /// process join at once. The read has the fence of the write.
    ///
    /// It waits for nothing: slot 0 is kept, and the other locks are released in the background. If the write is over
    /// already, the read may be over, too: look at [`valid_for`](Held::valid_for).
    pub fn downgrade(self) -> ReadGuard<B> {
        let Self { slots, gate, process } = self;
        let (fence, mut slots) = (gate.fence(), slots.into_iter());
        // A later writer with a smaller number may not know of the other slots, because a writer announces nothing. Every
        // writer takes slot 0.
        let kept = slots.next();
        drop(slots);
        // A writer has at least one slot.
        let (number, guard) = kept.unwrap_or((0, gate));
        let held = guard.held().with_fence(fence);
        ReadGuard::new(process.open(Slot { guard, number, held }))
    }

    /// Ends the write, and returns whether its lock of the gate was held until now. All locks are released at once.
    ///
    /// # Errors
    ///
    /// The first failure, as [`LockGuard::release`]. All releases were sent nevertheless.
    ///
    /// # Cancel safety
    ///
    /// Safe: dropped releases go on in the background.
    pub async fn release(self) -> Result<ReleaseResult, LockError> {
        let slots = join_all(self.slots.into_iter().map(|(_, guard)| guard.release()));
        let (slots, gate) = tokio::join!(slots, self.gate.release());
        slots.into_iter().collect::<Result<Vec<_>, _>>()?;
        gate
    }
}

impl<B: LockBackend> Deref for WriteGuard<B> {
    type Target = Held<B::Fence>;

    fn deref(&self) -> &Self::Target {
        &self.gate
    }
}

impl<B: LockBackend> fmt::Debug for WriteGuard<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteGuard")
            .field("slots", &self.slots.len())
            .field("gate", &self.gate)
            .finish()
    }
}
