//! Asking whether a key is locked.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::{Key, LockError};

use crate::clock::Moment;
use crate::error::Failure;
use crate::inner::Inner;
use crate::operation::Operation;
use crate::store::Store;

pub(crate) async fn is_locked(
    inner: Arc<Inner>,
    key: Key,
    caller: Caller,
) -> Result<bool, LockError> {
    let result = inner.run(IsLocked(key.clone()), caller).await;
    let state = result.map_err(|error| error.with_key(&key))?;
    if state.is_clearable && inner.settings.cleanup_in_is_locked {
        inner.run_in_background(DeleteExpired(key));
    }
    Ok(state.is_locked)
}

/// Reads the state of a key's lock.
pub(crate) struct IsLocked(pub(crate) Key);

/// The state of a key's lock.
pub(crate) struct LockState {
    pub(crate) is_locked: bool,
    /// True if there is a lock that was written without a holder.
    pub(crate) is_polled: bool,
    /// True if there is a lock that expired long enough ago to be deleted.
    is_clearable: bool,
}

impl IsLocked {
    fn state(&self, store: Store<'_>, now: &Moment) -> Result<LockState, Failure> {
        let record = store.by_key(&self.0)?;
        Ok(LockState {
            is_locked: record.as_ref().is_some_and(|record| record.is_live(now)),
            is_polled: record.as_ref().is_some_and(|record| record.is_polled),
            is_clearable: record.is_some_and(|record| record.is_clearable(now)),
        })
    }
}

impl Operation for IsLocked {
    type Output = LockState;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<LockState>, Failure> {
        self.state(store, now).map(Some)
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<LockState, Failure> {
        self.state(store, now)
    }
}

/// Deletes a lock that expired long ago.
struct DeleteExpired(Key);

impl Operation for DeleteExpired {
    type Output = ();

    const RUNS_WITHOUT_CALLER: bool = true;
    const MATTERS_AFTER_REBOOT: bool = false;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<()>, Failure> {
        let record = store.by_key(&self.0)?;
        let is_clearable = record.is_some_and(|record| record.is_clearable(now));
        Ok((!is_clearable).then_some(()))
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<(), Failure> {
        if store.by_key(&self.0)?.is_some_and(|record| record.is_clearable(now)) {
            store.delete_lock(&self.0)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::operation::testing::with_a_lock;

    #[test]
    fn a_lock_that_was_taken_meanwhile_is_not_deleted() {
        with_a_lock(|store, lock, now, later| {
            for (at, stays) in [(now, true), (later, false)] {
                DeleteExpired(lock.key.clone()).write(store, at).unwrap();
                assert_eq!(store.by_key(&lock.key).unwrap().is_some(), stays);
            }
        });
    }
}
