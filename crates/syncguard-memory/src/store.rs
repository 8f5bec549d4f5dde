//! The stored locks, fence counters and watches, and the operations on them.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use syncguard_core::authoring::{LOCK_ID_IN_USE, is_clearable};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, Holder, KeySignal, KeyWatch, ReleaseRequest,
    TIME_TOLERANCE, is_live,
};
use syncguard_core::{
    Contention, ExtendResult, Fence, Key, LockError, LockId, LockInfo, NotHeld, ReleaseResult,
    Timestamp, Ttl,
};

#[derive(Debug, Default)]
pub(crate) struct Store {
    /// The keys that were ever locked.
    slots: HashMap<Key, Slot>,
    /// The keys of the stored locks.
    keys: HashMap<LockId, Key>,
    watches: HashMap<Key, Vec<KeySignal>>,
    /// Expired locks are deleted next when this many locks are stored.
    sweep_at: usize,
}

/// The fence counter and the lock of a key.
#[derive(Debug)]
struct Slot {
    /// The fence of the last acquisition.
    fence: Fence,
    lock: Option<Record>,
}

#[derive(Debug)]
pub(crate) struct Record {
    lock_id: LockId,
    acquired_at: Timestamp,
    expires_at: Timestamp,
    fence: Fence,
    holder: Holder,
}

impl Slot {
    fn live(&self, now: Timestamp) -> Option<&Record> {
        self.lock.as_ref().filter(|lock| lock.is_live(now))
    }
}

impl Record {
    fn is_live(&self, now: Timestamp) -> bool {
        is_live(self.expires_at, now)
    }

    pub(crate) fn live_info(&self, key: &Key, now: Timestamp) -> Option<LockInfo> {
        let info = || {
            LockInfo::new(key.clone(), self.lock_id, self.acquired_at, self.expires_at, self.fence)
                .with_holder(Some(self.holder.clone()))
        };
        self.is_live(now).then(info)
    }

    /// Returns whether operations on this lock answer `Expired` rather than `NotFound`.
    fn is_remembered(&self, now: Timestamp) -> bool {
        !is_clearable(self.expires_at, now)
    }
}

impl Store {
    pub(crate) fn acquire(
        &mut self,
        request: &AcquireRequest,
        holder: &Holder,
        now: Timestamp,
    ) -> Result<AcquireResult, LockError> {
        let AcquireRequest { key, lock_id, ttl, fence_window: window, .. } = request;
        let (lock_id, ttl) = (*lock_id, *ttl);
        let slot = self.slots.get_mut(key);
        let live = slot.as_ref().and_then(|slot| slot.live(now));
        if let Some(held) = live.filter(|held| held.lock_id == lock_id) {
            // The caller already holds the lock: the first answer was lost.
            let held = Acquired::new(lock_id, held.expires_at, held.fence);
            return Ok(AcquireResult::Acquired(held));
        }
        let counter = slot.as_ref().map_or(Fence::ZERO, |slot| slot.fence);
        if let Some(refusal) = window.and_then(|window| window.refuses_counter(counter)) {
            return Ok(AcquireResult::Refused(refusal));
        }
        if let Some(refusal) = window.and_then(|window| window.refuses_time(now)) {
            return Ok(AcquireResult::Refused(refusal));
        }
        if let Some(held) = live {
            return Ok(AcquireResult::Busy(Contention::until(held.expires_at, now)));
        }
        // The steps that can fail come before the first change.
        let fence = request.next_fence(counter)?;
        let expires_at = now.plus(ttl)?;
        match self.keys.entry(lock_id) {
            Entry::Occupied(other) if other.get() != key => {
                return Err(LockError::invalid_argument(LOCK_ID_IN_USE));
            }
            Entry::Occupied(_) => {}
            Entry::Vacant(new) => drop(new.insert(key.clone())),
        }
        let holder = holder.clone();
        let lock = Some(Record { lock_id, acquired_at: now, expires_at, fence, holder });
        let before = match slot {
            Some(slot) => std::mem::replace(slot, Slot { fence, lock }).lock,
            None => {
                self.slots.insert(key.clone(), Slot { fence, lock });
                None
            }
        };
        if let Some(expired) = before.filter(|expired| expired.lock_id != lock_id) {
            self.keys.remove(&expired.lock_id);
        }
        self.sweep(now);
        Ok(AcquireResult::Acquired(Acquired::new(lock_id, expires_at, fence)))
    }

    pub(crate) fn release(&mut self, request: &ReleaseRequest, now: Timestamp) -> ReleaseResult {
        let Entry::Occupied(key) = self.keys.entry(request.lock_id) else {
            return ReleaseResult::NotHeld(NotHeld::NotFound);
        };
        let Some(slot) = self.slots.get_mut(key.get()) else {
            return ReleaseResult::NotHeld(NotHeld::NotFound);
        };
        if let Err(not_held) = held(slot.lock.as_mut(), now) {
            return ReleaseResult::NotHeld(not_held);
        }
        slot.lock = None;
        if let Some((_, at_least)) = request.raised().filter(|(raised, _)| *raised == key.get()) {
            slot.fence = slot.fence.max(at_least);
        }
        let key = key.remove();
        if !self.watches.is_empty() {
            // A signal is given when it is dropped.
            self.watches.remove(&key);
        }
        ReleaseResult::Released
    }

    /// Releases the lock of a key, whoever holds it. Returns false if it is not locked.
    pub(crate) fn release_key(&mut self, key: &Key, now: Timestamp) -> bool {
        let lock = self.slots.get(key).and_then(|slot| slot.live(now));
        let lock_id = lock.map(|lock| lock.lock_id);
        lock_id
            .is_some_and(|lock_id| self.release(&ReleaseRequest::new(lock_id), now).is_released())
    }

    /// Ends the lock of a key, tolerance included. Returns false if it is not locked.
    pub(crate) fn expire(&mut self, key: &Key, now: Timestamp) -> bool {
        let Ok(over) = Timestamp::from_system_time(now.to_system_time() - TIME_TOLERANCE) else {
            return false;
        };
        let lock = self.slots.get_mut(key).and_then(|slot| slot.lock.as_mut());
        lock.filter(|lock| lock.is_live(now)).is_some_and(|lock| {
            lock.expires_at = over;
            true
        })
    }

    pub(crate) fn extend(
        &mut self,
        lock_id: LockId,
        ttl: Ttl,
        expected: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<ExtendResult, LockError> {
        let mut expires_at = now.plus(ttl)?;
        Ok(match self.held_by(lock_id, now) {
            Err(not_held) => ExtendResult::NotHeld(not_held),
            Ok(record) if expected.is_some_and(|expected| expected != record.expires_at) => {
                ExtendResult::Mismatch { expires_at: record.expires_at }
            }
            Ok(record) => {
                if record.expires_at == expires_at {
                    expires_at = expires_at.plus(Ttl::MIN)?;
                }
                record.expires_at = expires_at;
                ExtendResult::Extended { expires_at }
            }
        })
    }

    /// Makes a watch that signals once, at the next release of the key.
    pub(crate) fn watch(&mut self, key: Key, now: Timestamp) -> KeyWatch {
        let (signal, watch) = KeyWatch::new();
        if self.by_key(&key, now).is_none() {
            return watch;
        }
        let watches = self.watches.entry(key).or_default();
        watches.retain(|signal| !signal.is_unheard());
        watches.push(signal);
        watch.with_locked()
    }

    pub(crate) fn by_key(&self, key: &Key, now: Timestamp) -> Option<LockInfo> {
        let (key, slot) = self.slots.get_key_value(key)?;
        slot.live(now)?.live_info(key, now)
    }

    /// Iterates over all live locks, in any order.
    pub(crate) fn live(&self, now: Timestamp) -> impl Iterator<Item = (&Key, &Record)> {
        let slots = self.keys.values().filter_map(|key| Some((key, self.slots.get(key)?)));
        slots.filter_map(move |(key, slot)| Some((key, slot.live(now)?)))
    }

    /// Iterates over all fence counters, in any order.
    pub(crate) fn counters(&self) -> impl Iterator<Item = (&Key, &Fence)> {
        self.slots.iter().map(|(key, slot)| (key, &slot.fence))
    }

    pub(crate) fn fence(&self, key: &Key) -> Option<Fence> {
        self.slots.get(key).map(|slot| slot.fence)
    }

    /// Raises the counter of a key to at least this fence, and never lowers it.
    pub(crate) fn raise_fence(&mut self, key: Key, at_least: Fence) -> Fence {
        let fence = &mut self.slot(key).fence;
        *fence = at_least.max(*fence);
        *fence
    }

    pub(crate) fn by_lock_id(&self, lock_id: LockId, now: Timestamp) -> Option<LockInfo> {
        self.by_key(self.keys.get(&lock_id)?, now)
    }

    pub(crate) fn set_fence(&mut self, key: Key, fence: Fence) {
        self.slot(key).fence = fence;
    }

    fn slot(&mut self, key: Key) -> &mut Slot {
        self.slots.entry(key).or_insert(Slot { fence: Fence::ZERO, lock: None })
    }

    pub(crate) fn stored_locks(&self) -> usize {
        self.keys.len()
    }

    fn held_by(&mut self, lock_id: LockId, now: Timestamp) -> Result<&mut Record, NotHeld> {
        let slot = self.keys.get(&lock_id).and_then(|key| self.slots.get_mut(key));
        held(slot.and_then(|slot| slot.lock.as_mut()), now)
    }

    /// Deletes old expired locks each time the number of locks has doubled since the last sweep. The
    /// work per acquire is constant, and at most twice the locks worth keeping are stored.
    fn sweep(&mut self, now: Timestamp) {
        const SMALLEST: usize = 64;
        if self.keys.len() <= self.sweep_at.max(SMALLEST) {
            return;
        }
        let slots = &mut self.slots;
        self.keys.retain(|_, key| {
            let Some(slot) = slots.get_mut(key) else { return false };
            slot.lock = slot.lock.take().filter(|lock| lock.is_remembered(now));
            slot.lock.is_some()
        });
        self.sweep_at = self.keys.len() * 2;
    }
}

/// Returns the lock if it is live, else the reason why it is not held.
fn held(lock: Option<&mut Record>, now: Timestamp) -> Result<&mut Record, NotHeld> {
    match lock {
        Some(held) if held.is_live(now) => Ok(held),
        Some(expired) if expired.is_remembered(now) => Err(NotHeld::Expired),
        _ => Err(NotHeld::NotFound),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_holder_is_kept_until_the_next_one() {
        let mut store = Store::default();
        let key = Key::new("key").unwrap();
        let time = |millis| Timestamp::from_millis(millis).unwrap();
        let held = |store: &Store| store.slots[&key].lock.as_ref().unwrap().holder.clone();
        let ttl = Ttl::from_millis(1000).unwrap();
        let first = Holder::new("first").unwrap().with_note("nightly").unwrap();
        let request = || AcquireRequest::new(&key, ttl).unwrap();
        let asked = request();
        let id = asked.lock_id;
        let _ = store.acquire(&asked, &first, time(5000)).unwrap();
        let _ = store.extend(id, ttl, None, time(5500)).unwrap();
        assert_eq!(held(&store), first);
        let second = Holder::new("second").unwrap();
        let asked = request();
        let refused = store.acquire(&asked, &second, time(7499)).unwrap();
        let AcquireResult::Busy(contention) = refused else { panic!("{refused:?}") };
        assert!(!contention.is_polled);
        assert_eq!(held(&store), first);
        let _ = store.acquire(&asked, &second, time(7500)).unwrap();
        assert_eq!(held(&store), second);
    }

    #[test]
    fn a_watch_that_nobody_hears_any_more_is_forgotten() {
        let (mut store, key) = (Store::default(), Key::new("key").unwrap());
        let now = Timestamp::from_millis(5000).unwrap();
        let request = AcquireRequest::new(&key, Ttl::DEFAULT).unwrap();
        let _ = store.acquire(&request, &Holder::unnamed(), now).unwrap();
        for _ in 0..3 {
            assert!(store.watch(key.clone(), now).is_locked);
        }
        assert_eq!(store.watches[&key].len(), 1);
    }
}
