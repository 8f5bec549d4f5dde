//! The memory of a backend for its own locks and for the keys that it has left free.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncguard_core::{Fence, Key, LockId};

use crate::record::Held;

/// An entry that is gone costs a read, and an outdated one costs a failed condition. Neither gives a wrong answer, because
/// every write states the version that it is based on.
pub(crate) struct Memory {
    /// The locks that this backend has taken or extended, as it wrote them last.
    pub(crate) locks: Cache<LockId, Held>,
    /// The keys that this backend released last, and their counters. An acquire takes the entry out: the key of a lock is
    /// never in here, since a condition that fails is a write for etcd.
    pub(crate) free: Cache<Key, Fence>,
}

impl Memory {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { locks: Cache::new(capacity), free: Cache::new(capacity) }
    }

    /// Remembers the lock, unless a later version of it is remembered: the answers to two extends at once may arrive in the
    /// other order.
    pub(crate) fn remember(&self, held: Held) {
        let is_older = |before: &Held| before.version.revision > held.version.revision;
        let lock_id = held.record.lock_id;
        let later = self.locks.take(lock_id).filter(is_older);
        self.locks.put(lock_id, later.unwrap_or(held));
    }
}

/// A bounded map of two generations: when the younger one is full, the older one is dropped as a whole. The work is
/// constant, and at least the last `capacity / 2` entries are there.
pub(crate) struct Cache<K, V> {
    generation: usize,
    entries: Mutex<Generations<K, V>>,
}

struct Generations<K, V> {
    younger: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Cache<K, V> {
    fn new(capacity: usize) -> Self {
        let entries = Generations { younger: HashMap::new(), older: HashMap::new() };
        Self { generation: capacity / 2, entries: Mutex::new(entries) }
    }

    pub(crate) fn put(&self, key: K, value: V) {
        if self.generation == 0 {
            return;
        }
        let mut entries = self.entries();
        entries.older.remove(&key);
        if entries.younger.len() >= self.generation && !entries.younger.contains_key(&key) {
            entries.older = std::mem::take(&mut entries.younger);
        }
        entries.younger.insert(key, value);
    }

    /// Removes and returns an entry: the caller is about to change the record.
    pub(crate) fn take<Q>(&self, key: Q) -> Option<V>
    where
        Q: std::borrow::Borrow<K>,
    {
        let mut entries = self.entries();
        let younger = entries.younger.remove(key.borrow());
        younger.or_else(|| entries.older.remove(key.borrow()))
    }

    fn entries(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_half_at_least_is_remembered_and_no_more_than_all() {
        let cache = Cache::new(10);
        for number in 0..103 {
            cache.put(number, ());
            let entries = cache.entries();
            assert!(entries.younger.len() + entries.older.len() <= 10);
        }
        for number in 98..103 {
            assert!(cache.take(number).is_some() && cache.take(number).is_none());
        }
        assert!(cache.take(0).is_none());
    }

    #[test]
    fn one_key_is_one_entry() {
        let cache = Cache::new(4);
        for key in [0, 1, 0, 1, 1, 0] {
            cache.put(key, ());
        }
        for key in [0, 1] {
            assert!(cache.take(key).is_some() && cache.take(key).is_none());
        }
    }

    #[test]
    fn a_memory_of_nothing_remembers_nothing() {
        let cache = Cache::new(0);
        cache.put(1, ());
        assert!(cache.take(1).is_none());
    }
}
