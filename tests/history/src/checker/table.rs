//! The locks that are not forgotten.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::lock::Lock;

/// The place of a lock in the table. Places are never used again, and grow.
pub(super) type Place = u64;

#[derive(Debug, Default)]
pub(super) struct Table {
    locks: BTreeMap<Place, Lock>,
    ids: HashMap<Arc<str>, Place>,
    next: Place,
}

impl Table {
    pub(super) fn find(&self, id: &str) -> Option<Place> {
        self.ids.get(id).copied()
    }

    pub(super) fn get(&self, place: Place) -> Option<&Lock> {
        self.locks.get(&place)
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Lock> {
        self.locks.get_mut(&place)
    }

    pub(super) fn insert(&mut self, lock: Lock) -> Place {
        self.next += 1;
        self.ids.insert(Arc::clone(&lock.id), self.next);
        self.locks.insert(self.next, lock);
        self.next
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Lock> {
        let lock = self.locks.remove(&place)?;
        self.ids.remove(&lock.id);
        Some(lock)
    }

    pub(super) fn places(&self) -> Vec<Place> {
        self.locks.keys().copied().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}
