//! Giving a lock back.

use syncguard_core::{LockId, ReleaseResult};

use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::Store;

pub(crate) struct Release(pub(crate) LockId);

impl Operation for Release {
    type Output = ReleaseResult;

    const IS_OWED: bool = true;
    const OUTLIVES_BOOT: bool = false;

    /// A lock that is gone never comes back under its id, so this is final.
    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<ReleaseResult>, Failure> {
        let record = store.by_lock_id(self.0)?;
        if record.as_ref().is_some_and(|record| record.is_live(now)) {
            return Ok(None);
        }
        Ok(Some(ReleaseResult::NotHeld(Record::not_held(record.as_ref()))))
    }

    fn change(&self, store: Store<'_>, now: &Moment) -> Result<ReleaseResult, Failure> {
        let record = store.by_lock_id(self.0)?;
        match record.as_ref().filter(|record| record.is_live(now)) {
            None => Ok(ReleaseResult::NotHeld(Record::not_held(record.as_ref()))),
            Some(held) => {
                store.delete_lock(&held.key)?;
                Ok(ReleaseResult::Released)
            }
        }
    }
}
