//! The trait of operations on the file.

use crate::clock::Moment;
use crate::error::Failure;
use crate::store::Store;

/// An operation on the file. The thread may retry it until it is committed.
pub(crate) trait Operation: Send + 'static {
    type Output: Send + 'static;

    /// True if the operation must be carried out even after its caller has gone.
    const RUNS_WITHOUT_CALLER: bool = false;

    /// True if the change must survive a restart of the machine. A fence must survive it; a lock need not
    /// if [the boot is known](crate::clock::Clock::knows_boot).
    const MATTERS_AFTER_REBOOT: bool = true;

    /// Returns the answer if the operation needs no change, `None` if it needs one. Blocks no other writer.
    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<Self::Output>, Failure>;

    /// Decides and writes, in a transaction that excludes all other writers. A refusal
    /// ([`Failure::Refused`]) comes before the first write.
    fn write(&self, store: Store<'_>, now: &Moment) -> Result<Self::Output, Failure>;
}
