//! The memory of a backend for its own records.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// For authors of backends: a bounded map of the entries that were put last.
///
/// It has two generations: when the younger one is full, the older one is dropped as a whole. The work is constant, and at
/// least the last `capacity / 2` entries are there.
#[derive(Debug)]
pub struct Recent<K, V> {
    generation: usize,
    entries: Mutex<Generations<K, V>>,
}

#[derive(Debug)]
struct Generations<K, V> {
    younger: HashMap<K, V>,
    older: HashMap<K, V>,
}

impl<K: Eq + Hash, V> Recent<K, V> {
    /// An empty map; one of less than two entries stays empty.
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let entries = Generations { younger: HashMap::new(), older: HashMap::new() };
        Self { generation: capacity / 2, entries: Mutex::new(entries) }
    }

    /// Puts an entry, in the place of an entry of the same key.
    pub fn put(&self, key: K, value: V) {
        self.put_unless(key, value, |_, _| false);
    }

    /// As [`put`](Self::put), unless there is an entry of the same key that `stays`, beside the new one.
    pub(crate) fn put_unless(&self, key: K, value: V, stays: impl FnOnce(&V, &V) -> bool) {
        if self.generation == 0 {
            return;
        }
        let mut entries = self.entries();
        let before = entries.remove(&key).filter(|before| stays(before, &value));
        if entries.younger.len() >= self.generation {
            entries.older = std::mem::take(&mut entries.younger);
        }
        entries.younger.insert(key, before.unwrap_or(value));
    }

    /// Removes and returns an entry.
    pub fn take(&self, key: &K) -> Option<V> {
        self.entries().remove(key)
    }

    /// Reads an entry.
    pub fn look<T>(&self, key: &K, read: impl FnOnce(&V) -> T) -> Option<T> {
        let entries = self.entries();
        entries.younger.get(key).or_else(|| entries.older.get(key)).map(read)
    }

    fn entries(&self) -> MutexGuard<'_, Generations<K, V>> {
        self.entries.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K: Eq + Hash, V> Generations<K, V> {
    fn remove(&mut self, key: &K) -> Option<V> {
        let younger = self.younger.remove(key);
        younger.or_else(|| self.older.remove(key))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_half_at_least_is_there_and_no_more_than_all() {
        let recent = Recent::new(10);
        for number in 0..103 {
            recent.put(number, ());
            let entries = recent.entries();
            assert!(entries.younger.len() + entries.older.len() <= 10);
        }
        for number in 98..103 {
            assert!(recent.take(&number).is_some() && recent.take(&number).is_none());
        }
        assert!(recent.take(&0).is_none());
    }

    #[test]
    fn one_key_is_one_entry() {
        let recent = Recent::new(4);
        for (key, value) in [(0, 1), (1, 1), (0, 2), (1, 2), (1, 3), (0, 3)] {
            recent.put(key, value);
        }
        recent.put_unless(0, 4, |before, value| (*before, *value) == (3, 4));
        for key in [0, 1] {
            assert_eq!(recent.look(&key, |value| *value), Some(3));
            assert!(recent.take(&key).is_some() && recent.take(&key).is_none());
        }
    }

    #[test]
    fn a_map_of_nothing_stays_empty() {
        let recent = Recent::new(0);
        recent.put(1, ());
        assert!(recent.take(&1).is_none());
    }
}
