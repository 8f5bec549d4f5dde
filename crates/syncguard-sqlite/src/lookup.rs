//! Looking up the details of a live lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::LookupBy;
use syncguard_core::{LockError, LockInfo};

use crate::clock::Moment;
use crate::error::Failure;
use crate::inner::Inner;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::Store;

pub(crate) async fn lookup(
    inner: Arc<Inner>,
    by: LookupBy,
    caller: Caller,
) -> Result<Option<LockInfo>, LockError> {
    let result = inner.run(Lookup(by.clone()), caller).await;
    result.map_err(|error| by.name_in(error))
}

struct Lookup(LookupBy);

impl Lookup {
    fn find(&self, store: Store<'_>, now: &Moment) -> Result<Option<LockInfo>, Failure> {
        let record = match &self.0 {
            LookupBy::Key(key) => store.by_key(key)?,
            LookupBy::LockId(lock_id) => store.by_lock_id(*lock_id)?,
        };
        let live = record.filter(|record| record.is_live(now));
        Ok(live.map(Record::into_info).transpose()?)
    }
}

impl Operation for Lookup {
    type Output = Option<LockInfo>;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<Self::Output>, Failure> {
        self.find(store, now).map(Some)
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<Self::Output, Failure> {
        self.find(store, now)
    }
}
