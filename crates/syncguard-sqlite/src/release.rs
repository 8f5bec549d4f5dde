//! Releasing a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockError, LockId, ReleaseResult};

use crate::clock::Moment;
use crate::error::Failure;
use crate::inner::Inner;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::Store;

pub(crate) async fn release(
    inner: Arc<Inner>,
    request: ReleaseRequest,
    caller: Caller,
) -> Result<ReleaseResult, LockError> {
    let lock_id = request.lock_id;
    let result = inner.run(Release(lock_id), caller).await;
    result.map_err(|error| error.with_lock_id(lock_id))
}

struct Release(LockId);

impl Operation for Release {
    type Output = ReleaseResult;

    const RUNS_WITHOUT_CALLER: bool = true;
    const MATTERS_AFTER_REBOOT: bool = false;

    /// A lock that is gone never comes back under its id, so `NotHeld` is final.
    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<ReleaseResult>, Failure> {
        let record = store.by_lock_id(self.0)?;
        if record.as_ref().is_some_and(|record| record.is_live(now)) {
            return Ok(None);
        }
        Ok(Some(ReleaseResult::NotHeld(Record::not_held(record.as_ref()))))
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<ReleaseResult, Failure> {
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
