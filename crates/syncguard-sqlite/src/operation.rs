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

#[cfg(test)]
pub(crate) mod testing {
    use rusqlite::Connection;
    use syncguard_core::Fence;

    use super::{Moment, Store};
    use crate::record::Record;
    use crate::record::tests::{moment, record};
    use crate::schema::{MIGRATIONS, migrate};

    /// Calls `check` with a file that has this lock and its counter, at the time of the acquisition and long after the
    /// expiry. An operation that has read the file finds it so when it may write.
    pub(crate) fn with_a_lock(check: impl FnOnce(Store<'_>, &Record, &Moment, &Moment)) {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let (now, later) = (moment("a", 50_000, 0), moment("a", 90_000, 0));
        let (store, mut lock) = (Store(&connection), record(&now));
        lock.fence = Fence::new(5).unwrap();
        store.set_counter(&lock.key, lock.fence).unwrap();
        store.set_lock(&lock, None).unwrap();
        check(store, &lock, &now, &later);
    }
}
