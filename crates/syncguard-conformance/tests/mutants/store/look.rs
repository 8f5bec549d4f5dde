//! Lookups.

use syncguard_core::contract::LookupBy;
use syncguard_core::{Fence, Key, LockError, LockId, LockInfo};

use super::{Store, Stored, is_live, lock_is_long_over, timestamp};
use crate::mutants::flaws::Flaw;

impl Store {
    pub(crate) fn is_locked(&mut self, key: &Key, now: u64) -> Result<bool, LockError> {
        let (flaw, name) = (self.flaw, self.name(key));
        let garbage = matches!(self.locks.get(&name), Some(Stored::Garbage));
        if garbage && flaw == Some(Flaw::clears_corrupt_records_away) {
            self.locks.remove(&name);
        }
        let lock = match self.locks.get_mut(&name) {
            None => return Ok(false),
            Some(Stored::Garbage) if flaw == Some(Flaw::takes_corrupt_records_for_unlocked) => {
                return Ok(false);
            }
            Some(Stored::Garbage) => return Err(self.corrupt(key, &name)),
            Some(Stored::Lock(lock)) => lock,
        };
        let live = is_live(flaw, lock.expires_at, now)
            || flaw == Some(Flaw::is_locked_says_yes_while_a_record_is_there);
        if live && flaw == Some(Flaw::is_locked_extends) {
            lock.expires_at += 50;
        }
        if live && flaw == Some(Flaw::is_locked_deletes_live_locks) {
            self.locks.remove(&name);
        }
        let long_over = lock_is_long_over(self.locks.get(&name), now);
        if long_over && flaw == Some(Flaw::drops_the_counter_in_the_cleanup) {
            self.fences.remove(&name);
        }
        if long_over && flaw == Some(Flaw::cleanup_deletes_everything) {
            self.locks.clear();
        }
        Ok(live)
    }

    /// The lookup with the holder of the lock that the key has now.
    pub(crate) fn with_holder_of_now(&self, info: LockInfo) -> LockInfo {
        match self.locks.get(&self.name(&info.key)) {
            Some(Stored::Lock(lock)) => info.with_holder(lock.holder.clone()),
            _ => info,
        }
    }

    /// Returns true if a key's record is old enough to be removed.
    pub(crate) fn may_be_cleared(&self, key: &Key, now: u64) -> bool {
        lock_is_long_over(self.locks.get(&self.name(key)), now)
    }

    pub(crate) fn clear(&mut self, key: &Key) {
        self.locks.remove(&self.name(key));
    }

    pub(crate) fn lookup(
        &mut self,
        by: &LookupBy,
        now: u64,
    ) -> Result<Option<LockInfo>, LockError> {
        let flaw = self.flaw;
        let found = match by {
            LookupBy::Key(key) => {
                let name = self.name(key);
                match self.locks.get(&name) {
                    Some(Stored::Garbage) => return Err(self.corrupt(key, &name)),
                    Some(Stored::Lock(lock)) => Some((name, lock.clone())),
                    None => None,
                }
            }
            LookupBy::LockId(lock_id) => {
                let lock_id = self.addressed(*lock_id, Flaw::lookup_by_id_finds_any_lock);
                let trusts_the_index = self.has(Flaw::lookup_by_id_shows_the_next_lock);
                self.find(lock_id, now, trusts_the_index)?
            }
        };
        let Some((name, mut lock)) = found else { return Ok(None) };
        let live = is_live(flaw, lock.expires_at, now);
        if !live && flaw != Some(Flaw::lookup_shows_expired_locks) {
            return Ok(None);
        }
        let mut key = lock.key.clone();
        match flaw {
            Some(Flaw::lookup_returns_the_storage_key) => {
                // Shorter than the user's key if the flaw hashes or cuts it.
                key = Key::new(name.chars().take(100).collect::<String>())?;
            }
            Some(Flaw::lookup_logs_the_key) => tracing::debug!(key = key.expose(), "found a lock"),
            Some(Flaw::lookup_hides_the_holder) => lock.lock_id = LockId::generate()?,
            Some(Flaw::lookup_extends) => {
                lock.expires_at += 50;
                self.locks.insert(name, Stored::Lock(lock.clone()));
            }
            _ => {}
        }
        let fence = match flaw {
            Some(Flaw::shows_large_fences_rounded) if lock.fence > 100_000_000_000 => {
                lock.fence / 1000 * 1000 + 1
            }
            Some(Flaw::lookup_shows_another_fence) => lock.fence + 1,
            _ => lock.fence,
        };
        let (acquired_at, expires_at) = (timestamp(lock.acquired_at)?, timestamp(lock.expires_at)?);
        let fence = Fence::new(fence)?;
        let info = LockInfo::new(key, lock.lock_id, acquired_at, expires_at, fence);
        Ok(Some(info.with_holder(lock.holder)))
    }
}
