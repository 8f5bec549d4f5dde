//! Taking a lock.

use syncguard_core::Fence;
use syncguard_core::authoring::lock_id_in_use;
use syncguard_core::contract::{AcquireRequest, AcquireResult, Holder};

use crate::clock::Moment;
use crate::error::Failure;
use crate::operation::Operation;
use crate::record::Record;
use crate::store::{Store, corrupt_counter};

/// An acquire, and who will hold the lock.
pub(crate) struct Acquire(pub(crate) AcquireRequest, pub(crate) Holder);

impl Acquire {
    /// The answer if the key's lock is live.
    fn decide(
        &self,
        held: Option<&Record>,
        now: &Moment,
    ) -> Result<Option<AcquireResult>, Failure> {
        let Some(held) = held.filter(|held| held.is_live(now)) else { return Ok(None) };
        // The same id again is the same lock.
        Ok(Some(if held.lock_id == self.0.lock_id {
            AcquireResult::Acquired(held.acquired()?)
        } else {
            AcquireResult::Locked(held.contention(now))
        }))
    }
}

impl Operation for Acquire {
    type Output = AcquireResult;

    /// Contention keeps nobody from writing.
    fn look(&self, store: Store<'_>, now: &Moment) -> Result<Option<AcquireResult>, Failure> {
        self.decide(store.by_key(&self.0.key)?.as_ref(), now)
    }

    fn change(&self, store: Store<'_>, now: &Moment) -> Result<AcquireResult, Failure> {
        let AcquireRequest { key, lock_id, ttl, .. } = &self.0;
        let before = store.by_key(key)?;
        if let Some(answer) = self.decide(before.as_ref(), now)? {
            return Ok(answer);
        }
        if store.by_lock_id(*lock_id)?.is_some_and(|other| other.key != *key) {
            return Err(lock_id_in_use().into());
        }
        let last = store.counter(key)?.unwrap_or(Fence::ZERO);
        if before.is_some_and(|before| before.fence > last) {
            return Err(corrupt_counter(key, "the lock has a later fence").into());
        }
        let granted = Record::new(key.clone(), *lock_id, last.next()?, *ttl, now)?;
        let answer = AcquireResult::Acquired(granted.acquired()?);
        store.set_counter(key, granted.fence)?;
        store.set_lock(&granted, Some(&self.1))?;
        Ok(answer)
    }
}
