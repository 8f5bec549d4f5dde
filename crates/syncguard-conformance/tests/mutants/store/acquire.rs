//! Acquires.

use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired};
use syncguard_core::{Contention, ErrorCode, Fence, Key, LockError, LockId};

use super::{Entry, Record, Store, Stored, TOLERANCE, is_live, timestamp};
use crate::mutants::flaws::Flaw;

impl Store {
    pub(crate) fn acquire(
        &mut self,
        request: &AcquireRequest,
        now: u64,
    ) -> Result<AcquireResult, LockError> {
        self.check_key(&request.key)?;
        if self.has(Flaw::checks_the_counter_before_the_holder) {
            self.next_fence(&request.key)?;
        }
        if let Some(answer) = self.held(request, now)? {
            return Ok(answer);
        }
        self.grant(request, now)
    }

    /// The answer to an acquire of a key that is held.
    pub(crate) fn held(
        &mut self,
        request: &AcquireRequest,
        now: u64,
    ) -> Result<Option<AcquireResult>, LockError> {
        if self.has(Flaw::answers_repeated_requests_from_memory)
            && let Some(acquired) = self.granted.get(&request.lock_id)
        {
            return Ok(Some(AcquireResult::Acquired(*acquired)));
        }
        let (flaw, name) = (self.flaw, self.name(&request.key));
        let (is_held, is_own) = match self.locks.get(&name) {
            Some(Stored::Lock(lock)) => {
                let is_held = is_live(flaw, lock.expires_at, now);
                (is_held, is_held && lock.lock_id == request.lock_id)
            }
            _ => (false, false),
        };
        if (!is_own || flaw == Some(Flaw::looks_at_windows_before_the_own_lock))
            && let Some(refusal) = self.refusal(request, is_held, now)?
        {
            return Ok(Some(AcquireResult::Refused(refusal)));
        }
        let new_expiry = now + request.ttl.as_millis();
        match self.locks.get_mut(&name) {
            Some(Stored::Garbage) if flaw != Some(Flaw::takes_corrupt_records_for_free) => {
                Err(self.corrupt(&request.key, &name))
            }
            Some(Stored::Lock(lock)) if is_live(flaw, lock.expires_at, now) => {
                let asks_again = lock.lock_id == request.lock_id
                    && flaw != Some(Flaw::is_not_idempotent)
                    && !(flaw == Some(Flaw::forgets_the_request_at_its_expiry)
                        && lock.expires_at < now);
                if asks_again {
                    match flaw {
                        Some(Flaw::extends_on_a_repeated_request) => {
                            lock.expires_at = lock.expires_at.max(new_expiry);
                        }
                        Some(Flaw::shortens_on_a_repeated_request) => {
                            lock.expires_at = lock.expires_at.min(new_expiry);
                        }
                        Some(Flaw::takes_a_fence_for_a_repeated_request) => lock.fence += 1,
                        _ => {}
                    }
                    let lock = lock.clone();
                    return Ok(Some(AcquireResult::Acquired(self.acquired(&lock)?)));
                }
                match flaw {
                    Some(Flaw::accepts_a_second_holder) => return Ok(None),
                    Some(Flaw::says_contention_is_an_error) => {
                        return Err(LockError::new(ErrorCode::ServiceUnavailable, "conflict"));
                    }
                    Some(Flaw::extends_on_contention) => {
                        lock.expires_at = lock.expires_at.max(new_expiry);
                    }
                    Some(Flaw::uses_up_fences_on_contention) => {
                        *self.fences.entry(name).or_default() += 1;
                    }
                    Some(Flaw::indexes_refused_ids) => {
                        // The id leads to the lock, and its owner is not checked.
                        self.index.insert(request.lock_id, Entry { name, until: u64::MAX });
                    }
                    Some(Flaw::remembers_refused_ids_as_used) => self.refused.push(request.lock_id),
                    _ => {}
                }
                let until = match flaw {
                    Some(Flaw::never_says_how_long_it_is_held) => {
                        return Ok(Some(AcquireResult::Busy(Contention::default())));
                    }
                    Some(Flaw::says_the_ttl_without_the_tolerance) => lock.expires_at - TOLERANCE,
                    Some(Flaw::forgets_extends_in_a_refusal) => {
                        lock.acquired_at + request.ttl.as_millis()
                    }
                    _ => lock.expires_at,
                };
                let polls = flaw == Some(Flaw::takes_its_own_holders_for_pollers);
                let held = Contention::until(timestamp(until)?, timestamp(now)?);
                let held = held.with_polled(polls);
                Ok(Some(AcquireResult::Busy(held)))
            }
            _ => Ok(None),
        }
    }

    /// Returns true if the key has a record, of a live lock or not.
    pub(crate) fn has_record(&self, key: &Key) -> bool {
        self.locks.contains_key(&self.name(key))
    }

    /// Takes a key, also from another holder.
    pub(crate) fn grant(
        &mut self,
        request: &AcquireRequest,
        now: u64,
    ) -> Result<AcquireResult, LockError> {
        let name = self.name(&request.key);
        let before = match self.locks.get(&name) {
            Some(Stored::Lock(lock)) => Some(lock.clone()),
            _ => None,
        };
        if self.refused.contains(&request.lock_id)
            || self.has(Flaw::refuses_free_keys_at_first) && self.newest.is_none()
            || self.has(Flaw::locks_once_per_key) && self.fences.contains_key(&name)
        {
            self.newest = Some(request.lock_id);
            return Ok(AcquireResult::Busy(Contention::default()));
        }
        if before.is_some() && self.has(Flaw::fences_fall_after_expiry) {
            self.fences.remove(&name);
        }
        let mut lock = self.record(request, now, 0);
        let overflow = self.next_fence(&request.key);
        if overflow.is_err() && self.has(Flaw::overflow_leaves_a_lock) {
            self.locks.insert(name.clone(), Stored::Lock(lock.clone()));
        }
        let counter;
        (lock.fence, counter) = self.fences_of(request, overflow?);
        if self.has(Flaw::inherits_the_time_of_acquisition)
            && let Some(before) = self.ended.get(&name).or(before.as_ref())
        {
            lock.acquired_at = before.acquired_at;
        }
        if self.has(Flaw::keeps_the_first_holder)
            && let Some(before) = self.ended.get(&name).or(before.as_ref())
        {
            lock.holder.clone_from(&before.holder);
        }
        if let Some(before) = before {
            self.ended.insert(name.clone(), before);
        }
        self.fences.insert(self.counter(&request.key), counter);
        self.displace(&request.key);
        self.newest = Some(lock.lock_id);
        let until = if self.has(Flaw::extend_leaves_the_index_behind) {
            lock.expires_at + TOLERANCE
        } else {
            u64::MAX
        };
        self.index.insert(lock.lock_id, Entry { name: name.clone(), until });
        let acquired = self.acquired(&lock)?;
        self.granted.insert(lock.lock_id, acquired);
        self.locks.insert(name, Stored::Lock(lock));
        Ok(AcquireResult::Acquired(acquired))
    }

    /// The fence of the next acquire.
    pub(super) fn next_fence(&self, key: &Key) -> Result<u64, LockError> {
        let last = self.fences.get(&self.counter(key)).copied().unwrap_or(0);
        let next = last + 1;
        match self.flaw {
            Some(Flaw::repeats_fences) => return Ok(1),
            Some(Flaw::fences_start_at_two) if last == 0 => return Ok(2),
            Some(Flaw::loses_digits_of_large_fences) if last > 100_000_000_000_000 => {
                return Ok(next / 10 * 10);
            }
            Some(Flaw::refuses_fences_above_the_warning_level) if next > Fence::WARN.get() => {
                return Err(Fence::exhausted());
            }
            Some(Flaw::fails_on_the_last_fence) if next >= Fence::MAX.get() => {
                return Err(Fence::exhausted());
            }
            Some(Flaw::overflow_wraps) if next > Fence::MAX.get() => return Ok(1),
            Some(Flaw::overflow_is_unavailable) if next > Fence::MAX.get() => {
                return Err(LockError::new(ErrorCode::ServiceUnavailable, "no more fences"));
            }
            Some(Flaw::shows_the_key_in_errors) if next > Fence::MAX.get() => {
                return Err(LockError::internal(format!("no fence left for {}", key.expose())));
            }
            _ => {}
        }
        if next > Fence::MAX.get() { Err(Fence::exhausted()) } else { Ok(next) }
    }

    pub(super) fn counter(&self, key: &Key) -> String {
        if self.has(Flaw::counts_all_keys_together) { String::new() } else { self.name(key) }
    }

    /// The records that a lock's record overwrites if they have the same names.
    fn displace(&mut self, key: &Key) {
        if self.has(Flaw::keeps_counters_among_the_locks)
            && let Some(other) = key.expose().strip_prefix("fence:")
        {
            self.fences.remove(&format!("reference:{other}"));
        }
        if self.has(Flaw::keeps_the_index_among_the_locks)
            && let Ok(lock_id) = LockId::new(key.expose())
        {
            self.index.remove(&lock_id);
        }
    }

    fn acquired(&self, lock: &Record) -> Result<Acquired, LockError> {
        let lock_id =
            if self.has(Flaw::grants_another_lock_id) { LockId::generate()? } else { lock.lock_id };
        let off = u64::from(self.has(Flaw::reports_another_expiry_than_it_stores));
        Ok(Acquired::new(lock_id, timestamp(lock.expires_at + off)?, Fence::new(lock.fence)?))
    }
}
