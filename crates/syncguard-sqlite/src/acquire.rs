//! Taking a lock.

use std::sync::Arc;

use syncguard_core::authoring::LOCK_ID_IN_USE;
use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::{AcquireRequest, AcquireResult, Holder};
use syncguard_core::{Fence, LockError};

use crate::clock::Moment;
use crate::error::Failure;
use crate::inner::Inner;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::{Store, corrupt_counter};

pub(crate) async fn acquire(
    inner: Arc<Inner>,
    request: AcquireRequest,
    caller: Caller,
) -> Result<AcquireResult, LockError> {
    let key = request.key.clone();
    let holder = inner.settings.client_state.holder_of(&request).clone();
    let result = inner.run(Acquire(request, holder), caller).await;
    let result = result.map_err(|error| error.with_key(&key))?;
    if let AcquireResult::Acquired(acquired) = &result {
        acquired.fence.warn_near_limit("sqlite", &key);
    }
    Ok(result)
}

/// An acquire, and the future holder of the lock.
struct Acquire(AcquireRequest, Holder);

impl Acquire {
    /// Returns the answer if the key's lock is live, or the request's window refuses it.
    fn answer_at_once(
        &self,
        store: Store<'_>,
        held: Option<&Record>,
        now: &Moment,
    ) -> Result<Option<AcquireResult>, Failure> {
        let live = held.filter(|held| held.is_live(now));
        if let Some(held) = live.filter(|held| held.lock_id == self.0.lock_id) {
            // The caller holds the lock already: the first answer was lost.
            return Ok(Some(AcquireResult::Acquired(held.acquired()?)));
        }
        if let Some(window) = self.0.fence_window {
            let counter = store.counter(&self.0.key)?.unwrap_or(Fence::ZERO);
            let refusal = match window.refuses_counter(counter) {
                None => window.refuses_time(now.wall()?),
                taken => taken,
            };
            if let Some(refusal) = refusal {
                return Ok(Some(AcquireResult::Refused(refusal)));
            }
        }
        Ok(live.map(|held| AcquireResult::Busy(held.contention(now))))
    }
}

impl Operation for Acquire {
    type Output = AcquireResult;

    fn read(&self, store: Store<'_>, now: &Moment) -> Result<Option<AcquireResult>, Failure> {
        self.answer_at_once(store, store.by_key(&self.0.key)?.as_ref(), now)
    }

    fn write(&self, store: Store<'_>, now: &Moment) -> Result<AcquireResult, Failure> {
        let AcquireRequest { key, lock_id, ttl, .. } = &self.0;
        let before = store.by_key(key)?;
        if let Some(answer) = self.answer_at_once(store, before.as_ref(), now)? {
            return Ok(answer);
        }
        if store.by_lock_id(*lock_id)?.is_some_and(|other| other.key != *key) {
            return Err(LockError::invalid_argument(LOCK_ID_IN_USE).into());
        }
        let last = store.counter(key)?.unwrap_or(Fence::ZERO);
        if before.is_some_and(|before| before.fence > last) {
            return Err(corrupt_counter(key, "the lock has a later fence").into());
        }
        let fence = self.0.next_fence(last)?;
        let granted = Record::new(key.clone(), *lock_id, fence, *ttl, now)?;
        let answer = AcquireResult::Acquired(granted.acquired()?);
        store.set_counter(key, granted.fence)?;
        store.set_lock(&granted, Some(&self.1))?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::operation::testing::with_a_lock;

    #[test]
    fn a_counter_that_fell_behind_its_lock_grants_no_fence_twice() {
        with_a_lock(|store, lock, _, later| {
            let request = AcquireRequest::new(&lock.key, Duration::from_secs(1)).unwrap();
            let acquire = Acquire(request, Holder::unnamed());
            for sql in ["UPDATE fences SET fence = 4", "DELETE FROM fences"] {
                store.0.execute(sql, ()).unwrap();
                assert!(matches!(acquire.write(store, later), Err(Failure::Refused(_))), "{sql}");
            }
            store.set_counter(&lock.key, lock.fence).unwrap();
            assert!(acquire.write(store, later).unwrap().is_acquired());
        });
    }
}
