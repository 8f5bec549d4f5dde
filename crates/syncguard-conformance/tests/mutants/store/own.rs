//! Releases and extends.

use syncguard_core::contract::ExtendRequest;
use syncguard_core::{
    ExtendResult, Fence, Key, LockError, LockId, NotHeld, ReleaseResult, Timestamp,
};

use super::{Record, Store, Stored, is_live, timestamp};
use crate::mutants::flaws::Flaw;

impl Store {
    pub(crate) fn release(
        &mut self,
        lock_id: LockId,
        now: u64,
    ) -> Result<ReleaseResult, LockError> {
        let lock_id = self.addressed(lock_id, Flaw::release_ignores_the_id);
        match self.releasable(lock_id, now)? {
            Ok(name) => Ok(self.delete(lock_id, &name)),
            Err(_) if self.has(Flaw::release_always_succeeds) => Ok(ReleaseResult::Released),
            Err(why) => Ok(ReleaseResult::NotHeld(why)),
        }
    }

    /// Releases a lock and raises the counter of its key.
    pub(crate) fn release_counted(
        &mut self,
        lock_id: LockId,
        raised: Option<(Key, Fence)>,
        now: u64,
    ) -> Result<ReleaseResult, LockError> {
        let is_its = |(key, _): &(Key, Fence)| {
            let stored = self.locks.get(&self.name(key));
            matches!(stored, Some(Stored::Lock(lock)) if lock.lock_id == lock_id)
        };
        let trusts_the_key = self.has(Flaw::a_release_raises_the_counter_of_another_key);
        let raised = raised.filter(|raised| trusts_the_key || is_its(raised));
        if raised.is_some() && self.has(Flaw::says_nothing_of_a_release_that_raises_the_counter) {
            self.lost.extend(self.watches.drain().flat_map(|(_, signals)| signals));
        }
        let answer = self.release(lock_id, now)?;
        let raises = match self.flaw {
            Some(Flaw::a_release_raises_no_counter) => false,
            Some(Flaw::a_release_of_an_expired_lock_raises) => true,
            _ => answer.is_released(),
        };
        if let Some((key, at_least)) = raised.filter(|_| raises) {
            self.raise(&key, at_least)?;
        }
        Ok(answer)
    }

    /// The name of the lock that a release deletes.
    pub(crate) fn releasable(
        &mut self,
        lock_id: LockId,
        now: u64,
    ) -> Result<Result<String, NotHeld>, LockError> {
        let trusts_the_index = self.has(Flaw::release_deletes_the_next_lock);
        let (name, lock) = match self.find(lock_id, now, trusts_the_index)? {
            Some(found) => found,
            None if self.has(Flaw::release_says_unknown_ids_expired) => {
                return Ok(Err(NotHeld::Expired));
            }
            None => return Ok(Err(NotHeld::NotFound)),
        };
        let over = match self.flaw {
            Some(Flaw::release_of_an_expired_lock_succeeds) => false,
            Some(Flaw::release_ends_at_the_expiry) => lock.expires_at <= now,
            Some(Flaw::an_extended_lock_has_no_tolerance) if lock.is_extended => {
                lock.expires_at <= now
            }
            flaw => !is_live(flaw, lock.expires_at, now),
        };
        Ok(if over { Err(NotHeld::Expired) } else { Ok(name) })
    }

    pub(crate) fn delete(&mut self, lock_id: LockId, name: &str) -> ReleaseResult {
        if self.has(Flaw::release_does_nothing) {
            return ReleaseResult::Released;
        }
        self.signal(name);
        if let Some(Stored::Lock(lock)) = self.locks.remove(name) {
            if self.has(Flaw::brings_expired_locks_back)
                && let Some(before) = self.ended.remove(name)
            {
                let revived = Record { expires_at: lock.expires_at, ..before };
                self.locks.insert(name.to_owned(), Stored::Lock(revived));
            }
            self.ended.insert(name.to_owned(), lock);
        }
        if !self.has(Flaw::release_keeps_the_id) {
            self.index.remove(&lock_id);
        }
        if self.has(Flaw::drops_the_counter_on_release) {
            self.fences.remove(name);
        }
        ReleaseResult::Released
    }

    /// The first step of a release in two steps.
    pub(crate) fn forget_id(&mut self, lock_id: LockId) {
        self.index.remove(&lock_id);
    }

    pub(crate) fn extend(
        &mut self,
        request: &ExtendRequest,
        now: u64,
    ) -> Result<ExtendResult, LockError> {
        match self.extended(request, now)? {
            Ok((name, lock)) => self.store(name, lock),
            Err(_) if self.has(Flaw::extend_always_succeeds) => {
                let expires_at = timestamp(now + request.ttl.as_millis())?;
                Ok(ExtendResult::Extended { expires_at })
            }
            Err(answer) => Ok(answer),
        }
    }

    /// The lock that an extend stores, or the reason why it stores none.
    pub(crate) fn extended(
        &mut self,
        request: &ExtendRequest,
        now: u64,
    ) -> Result<Result<(String, Record), ExtendResult>, LockError> {
        let (ttl, expected) = (request.ttl, request.expected_expiry);
        let trusts_the_index = self.has(Flaw::extend_ignores_ownership);
        let Some((name, mut lock)) = self.find(request.lock_id, now, trusts_the_index)? else {
            return Ok(Err(ExtendResult::NotHeld(NotHeld::NotFound)));
        };
        let over = match self.flaw {
            Some(Flaw::extend_resurrects) => false,
            Some(Flaw::extend_ends_at_the_expiry) => lock.expires_at <= now,
            Some(Flaw::an_extended_lock_has_no_tolerance) if lock.is_extended => {
                lock.expires_at <= now
            }
            Some(Flaw::refuses_expectations_within_the_tolerance) if expected.is_some() => {
                lock.expires_at <= now
            }
            flaw => !is_live(flaw, lock.expires_at, now),
        };
        let mismatch = self.mismatch(expected, &lock)?;
        if over && !self.has(Flaw::compares_the_expectation_before_it_looks_at_the_life) {
            return Ok(Err(ExtendResult::NotHeld(NotHeld::Expired)));
        }
        if let Some(mismatch) = mismatch {
            return Ok(Err(mismatch));
        }
        if over {
            return Ok(Err(ExtendResult::NotHeld(NotHeld::Expired)));
        }
        let new_expiry = now + self.ttl(ttl);
        lock.expires_at = match self.flaw {
            Some(Flaw::extend_adds) => lock.expires_at + ttl.as_millis(),
            Some(Flaw::extend_only_lengthens) => lock.expires_at.max(new_expiry),
            Some(Flaw::extend_does_nothing) => lock.expires_at,
            flaw if flaw != Some(Flaw::extend_may_leave_the_expiry_as_it_was)
                && lock.expires_at == new_expiry =>
            {
                new_expiry + 1
            }
            _ => new_expiry,
        };
        lock.is_extended = true;
        if self.has(Flaw::extend_renews_the_time_of_acquisition) {
            lock.acquired_at = now;
        }
        if self.has(Flaw::extend_forgets_the_holder) {
            lock.holder = None;
        }
        if self.has(Flaw::extend_takes_a_fence) {
            lock.fence = self.next_fence(&lock.key)?;
            self.fences.insert(name.clone(), lock.fence);
        }
        Ok(Ok((name, lock)))
    }

    /// The answer to an extend that expects another expiry.
    fn mismatch(
        &self,
        expected: Option<Timestamp>,
        lock: &Record,
    ) -> Result<Option<ExtendResult>, LockError> {
        let Some(expected) = expected else { return Ok(None) };
        let is_right = match self.flaw {
            Some(Flaw::ignores_the_expected_expiry) => true,
            Some(Flaw::refuses_every_expectation) => false,
            Some(Flaw::extends_what_expires_later_than_expected) => {
                lock.expires_at >= expected.as_millis()
            }
            _ => lock.expires_at == expected.as_millis(),
        };
        let stored = timestamp(lock.expires_at)?;
        Ok(match self.flaw {
            _ if is_right => None,
            Some(Flaw::says_a_mismatch_is_not_held) => {
                Some(ExtendResult::NotHeld(NotHeld::NotFound))
            }
            Some(Flaw::answers_a_mismatch_with_the_expectation) => {
                Some(ExtendResult::Mismatch { expires_at: expected })
            }
            _ => Some(ExtendResult::Mismatch { expires_at: stored }),
        })
    }

    pub(crate) fn store(&mut self, name: String, lock: Record) -> Result<ExtendResult, LockError> {
        let mut expires_at = timestamp(lock.expires_at)?;
        if let Some(Stored::Lock(before)) = self.locks.insert(name, Stored::Lock(lock))
            && self.has(Flaw::extend_reports_the_old_expiry)
        {
            expires_at = timestamp(before.expires_at)?;
        }
        Ok(ExtendResult::Extended { expires_at })
    }

    /// Removes a lock for an extend that deletes and inserts.
    pub(crate) fn take_out(&mut self, name: &str) {
        self.locks.remove(name);
    }
}
