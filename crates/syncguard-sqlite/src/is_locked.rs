//! Whether a key is locked.

use syncguard_core::Key;

use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::store::Store;

pub(crate) struct IsLocked(pub(crate) Key);

/// What was seen of a key.
pub(crate) struct Seen {
    pub(crate) is_locked: bool,
    /// Whether there is a lock that was written without a holder.
    pub(crate) holder_polls: bool,
    /// Whether there is a lock that has been expired for long.
    pub(crate) is_clearable: bool,
}

impl IsLocked {
    fn find(&self, store: Store<'_>, now: &Moment) -> Result<Seen, Failure> {
        let record = store.by_key(&self.0)?;
        Ok(Seen {
            is_locked: record.as_ref().is_some_and(|record| record.is_live(now)),
            holder_polls: record.as_ref().is_some_and(|record| !record.has_holder),
            is_clearable: record.is_some_and(|record| record.is_clearable(now)),
        })
    }
}

impl Operation for IsLocked {
    type Output = Seen;

    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<Seen>, Failure> {
        self.find(store, now).map(Some)
    }

    fn change(&self, store: Store<'_>, now: &Moment) -> Result<Seen, Failure> {
        self.find(store, now)
    }
}

/// Deletes a lock that has been expired for long. Nobody waits for it.
pub(crate) struct ClearAway(pub(crate) Key);

impl Operation for ClearAway {
    type Output = ();

    const IS_OWED: bool = true;
    const OUTLIVES_BOOT: bool = false;

    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<()>, Failure> {
        let record = store.by_key(&self.0)?;
        let is_clearable = record.is_some_and(|record| record.is_clearable(now));
        Ok((!is_clearable).then_some(()))
    }

    fn change(&self, store: Store<'_>, now: &Moment) -> Result<(), Failure> {
        if store.by_key(&self.0)?.is_some_and(|record| record.is_clearable(now)) {
            store.delete_lock(&self.0)?;
        }
        Ok(())
    }
}
