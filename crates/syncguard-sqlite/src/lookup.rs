//! The details of a lock.

use syncguard_core::LockInfo;
use syncguard_core::contract::LookupBy;

use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::store::Store;

pub(crate) struct Lookup(pub(crate) LookupBy);

impl Lookup {
    fn find(&self, store: Store<'_>, now: &Moment) -> Result<Option<LockInfo>, Failure> {
        let record = match &self.0 {
            LookupBy::Key(key) => store.by_key(key)?,
            LookupBy::LockId(lock_id) => store.by_lock_id(*lock_id)?,
        };
        let live = record.filter(|record| record.is_live(now));
        Ok(live.map(crate::record::Record::into_info).transpose()?)
    }
}

impl Operation for Lookup {
    type Output = Option<LockInfo>;

    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<Self::Output>, Failure> {
        self.find(store, now).map(Some)
    }

    fn change(&self, store: Store<'_>, now: &Moment) -> Result<Self::Output, Failure> {
        self.find(store, now)
    }
}
