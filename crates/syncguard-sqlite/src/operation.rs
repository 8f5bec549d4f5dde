//! What is asked of the file.

use crate::clock::Moment;
use crate::error::Failure;
use crate::store::Store;

/// An operation on the file. It can be tried again as long as it was not committed.
pub(crate) trait Operation: Send + 'static {
    type Output: Send + 'static;

    /// Whether it is to be done although nobody hears the answer.
    const IS_OWED: bool = false;

    /// Whether what it changes counts after a restart of the machine: a fence does, and a lock does not where
    /// [the boot is known](crate::clock::Clock::knows_boot).
    const OUTLIVES_BOOT: bool = true;

    /// What the file answers as it is; `None` if it takes a change. Keeps nobody from writing.
    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<Self::Output>, Failure>;

    /// Decides and writes, in a transaction that nobody else writes in. Whatever it
    /// [refuses](Failure::Refused), it refuses before it writes anything.
    fn change(&self, store: Store<'_>, now: &Moment) -> Result<Self::Output, Failure>;
}
