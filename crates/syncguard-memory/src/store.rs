//! The contract, on two maps and a counter per key.

use std::collections::HashMap;

use syncguard_core::authoring::{is_clearable, lock_id_in_use};
use syncguard_core::{
    AcquireResult, Acquired, Contention, ExtendResult, Fence, Key, KeySignal, KeyWatch, LockError,
    LockId, LockInfo, NotHeld, ReleaseResult, Timestamp, Ttl, is_live,
};

#[derive(Debug, Default)]
pub(crate) struct Store {
    locks: HashMap<Key, Record>,
    keys: HashMap<LockId, Key>,
    fences: HashMap<Key, Fence>,
    watches: HashMap<Key, Vec<KeySignal>>,
    /// The number of locks at which the expired ones are cleared away next.
    sweep_at: usize,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    lock_id: LockId,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    fence: Fence,
}

impl Record {
    fn is_live(&self, now: Timestamp) -> bool {
        is_live(self.expires_at, now)
    }

    pub(crate) fn live_info(&self, key: &Key, now: Timestamp) -> Option<LockInfo> {
        let info = || {
            LockInfo::new(key.clone(), self.lock_id, self.acquired_at, self.expires_at, self.fence)
        };
        self.is_live(now).then(info)
    }

    /// Whether it still answers "expired" rather than "not found".
    fn is_remembered(&self, now: Timestamp) -> bool {
        !is_clearable(self.expires_at, now)
    }
}

impl Store {
    pub(crate) fn acquire(
        &mut self,
        key: &Key,
        lock_id: LockId,
        ttl: Ttl,
        now: Timestamp,
    ) -> Result<AcquireResult, LockError> {
        if let Some(held) = self.locks.get(key).filter(|held| held.is_live(now)) {
            // The same id again: the first answer was lost on its way.
            return Ok(if held.lock_id == lock_id {
                AcquireResult::Acquired(Acquired::new(lock_id, held.expires_at, held.fence))
            } else {
                AcquireResult::Locked(Contention::until(held.expires_at, now))
            });
        }
        // Everything that can fail comes before the first change.
        if self.keys.get(&lock_id).is_some_and(|other| other != key) {
            return Err(lock_id_in_use());
        }
        let fence = self.fences.get(key).copied().unwrap_or(Fence::ZERO).next()?;
        let expires_at = now.plus(ttl)?;
        self.sweep(now);
        self.set_fence(key.clone(), fence);
        let record = Record { lock_id, acquired_at: now, expires_at, fence };
        if let Some(expired) = self.locks.insert(key.clone(), record) {
            self.keys.remove(&expired.lock_id);
        }
        self.keys.insert(lock_id, key.clone());
        Ok(AcquireResult::Acquired(Acquired::new(lock_id, expires_at, fence)))
    }

    pub(crate) fn release(&mut self, lock_id: LockId, now: Timestamp) -> ReleaseResult {
        match self.held_by(lock_id, now) {
            Err(not_held) => ReleaseResult::NotHeld(not_held),
            Ok(_) => {
                if let Some(key) = self.keys.remove(&lock_id) {
                    self.locks.remove(&key);
                    // Dropped, each of them signals.
                    self.watches.remove(&key);
                }
                ReleaseResult::Released
            }
        }
    }

    pub(crate) fn extend(
        &mut self,
        lock_id: LockId,
        ttl: Ttl,
        expected: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<ExtendResult, LockError> {
        let expires_at = now.plus(ttl)?;
        Ok(match self.held_by(lock_id, now) {
            Err(not_held) => ExtendResult::NotHeld(not_held),
            Ok(record) if expected.is_some_and(|expected| expected != record.expires_at) => {
                ExtendResult::Mismatch { expires_at: record.expires_at }
            }
            Ok(record) => {
                record.expires_at = expires_at;
                ExtendResult::Extended { expires_at }
            }
        })
    }

    /// Signals once, at the next release of the key.
    pub(crate) fn watch(&mut self, key: Key, now: Timestamp) -> KeyWatch {
        let (signal, watch) = KeyWatch::new();
        if self.by_key(&key, now).is_none() {
            return watch;
        }
        let watches = self.watches.entry(key).or_default();
        watches.retain(|signal| !signal.is_unheard());
        watches.push(signal);
        watch.that_is_locked()
    }

    pub(crate) fn by_key(&self, key: &Key, now: Timestamp) -> Option<LockInfo> {
        let (key, held) = self.locks.get_key_value(key)?;
        held.live_info(key, now)
    }

    /// All live locks, in no order.
    pub(crate) fn live(&self, now: Timestamp) -> impl Iterator<Item = (&Key, &Record)> {
        self.locks.iter().filter(move |(_, held)| held.is_live(now))
    }

    /// All counters, in no order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&Key, &Fence)> {
        self.fences.iter()
    }

    pub(crate) fn fence(&self, key: &Key) -> Option<Fence> {
        self.fences.get(key).copied()
    }

    /// Never lowers it.
    pub(crate) fn raise_fence(&mut self, key: Key, at_least: Fence) -> Fence {
        let fence = self.fences.entry(key).or_insert(at_least);
        *fence = at_least.max(*fence);
        *fence
    }

    pub(crate) fn by_lock_id(&self, lock_id: LockId, now: Timestamp) -> Option<LockInfo> {
        self.by_key(self.keys.get(&lock_id)?, now)
    }

    pub(crate) fn set_fence(&mut self, key: Key, fence: Fence) {
        self.fences.insert(key, fence);
    }

    pub(crate) fn stored_locks(&self) -> usize {
        self.locks.len()
    }

    fn held_by(&mut self, lock_id: LockId, now: Timestamp) -> Result<&mut Record, NotHeld> {
        let record = self.keys.get(&lock_id).and_then(|key| self.locks.get_mut(key));
        match record {
            Some(held) if held.is_live(now) => Ok(held),
            Some(expired) if expired.is_remembered(now) => Err(NotHeld::Expired),
            _ => Err(NotHeld::NotFound),
        }
    }

    /// Forgets expired locks each time as many have come as were left: constant work per acquire,
    /// and never more than twice the locks worth remembering.
    fn sweep(&mut self, now: Timestamp) {
        const SMALLEST: usize = 64;
        if self.locks.len() < self.sweep_at.max(SMALLEST) {
            return;
        }
        let keys = &mut self.keys;
        self.locks.retain(|_, record| {
            let keep = record.is_remembered(now);
            if !keep {
                keys.remove(&record.lock_id);
            }
            keep
        });
        self.sweep_at = self.locks.len() * 2;
    }
}
