//! The locks that are not forgotten.

use std::collections::HashMap;
use std::sync::Arc;

use super::lock::Lock;

/// The place of a lock in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    index: usize,
    age: u64,
}

#[derive(Debug, Default)]
pub(super) struct Table {
    slots: Vec<(u64, Option<Lock>)>,
    free: Vec<usize>,
    ids: HashMap<Arc<str>, Place>,
}

impl Table {
    pub(super) fn find(&self, id: &str) -> Option<Place> {
        self.ids.get(id).copied()
    }

    pub(super) fn get(&self, place: Place) -> Option<&Lock> {
        let (age, lock) = self.slots.get(place.index)?;
        lock.as_ref().filter(|_| *age == place.age)
    }

    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Lock> {
        let (age, lock) = self.slots.get_mut(place.index)?;
        lock.as_mut().filter(|_| *age == place.age)
    }

    pub(super) fn insert(&mut self, lock: Lock) -> Place {
        let id = Arc::clone(&lock.id);
        let index = self.free.pop().unwrap_or_else(|| {
            self.slots.push((0, None));
            self.slots.len() - 1
        });
        let (age, slot) = &mut self.slots[index];
        *age += 1;
        *slot = Some(lock);
        let place = Place { index, age: *age };
        self.ids.insert(id, place);
        place
    }

    pub(super) fn remove(&mut self, place: Place) -> Option<Lock> {
        let (age, slot) = self.slots.get_mut(place.index)?;
        if *age != place.age {
            return None;
        }
        let lock = slot.take()?;
        self.free.push(place.index);
        self.ids.remove(&lock.id);
        Some(lock)
    }

    pub(super) fn places(&self) -> Vec<Place> {
        let slots = self.slots.iter().enumerate().filter(|(_, (_, lock))| lock.is_some());
        slots.map(|(index, (age, _))| Place { index, age: *age }).collect()
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }
}
