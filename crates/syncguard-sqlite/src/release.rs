//! Releasing a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{Fence, Key, LockError, LockId, ReleaseResult};

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
    let result = match request.raised() {
        None => inner.run(Release(lock_id), caller).await,
        Some((key, at_least)) => inner.run(Counted(lock_id, key.clone(), at_least), caller).await,
    };
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

/// A release that raises the counter of the lock's key. A fence must survive a restart of the machine.
struct Counted(LockId, Key, Fence);

impl Operation for Counted {
    type Output = ReleaseResult;

    const RUNS_WITHOUT_CALLER: bool = true;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<ReleaseResult>, Failure> {
        Release(self.0).read(store, now)
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<ReleaseResult, Failure> {
        let Self(lock_id, key, at_least) = self;
        let held = store.by_lock_id(*lock_id)?.filter(|record| record.key == *key);
        // A corrupt counter is an error before the first write.
        let is_behind = store.counter(key)?.is_none_or(|last| last < *at_least);
        let result = Release(*lock_id).write(store, now)?;
        if held.is_some() && is_behind && result.is_released() {
            store.set_counter(key, *at_least)?;
        }
        Ok(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::testing::with_a_lock;

    #[test]
    fn only_a_release_that_raises_a_counter_waits_for_the_disk() {
        assert_eq!((Counted::MATTERS_AFTER_REBOOT, Release::MATTERS_AFTER_REBOOT), (true, false));
    }

    #[test]
    fn a_release_never_lowers_a_counter() {
        with_a_lock(|store, lock, now, _| {
            let lower = Fence::new(3).unwrap();
            let counted = Counted(lock.lock_id, lock.key.clone(), lower);
            assert_eq!(counted.write(store, now).unwrap(), ReleaseResult::Released);
            assert_eq!(store.counter(&lock.key).unwrap(), Some(lock.fence));
        });
    }
}
