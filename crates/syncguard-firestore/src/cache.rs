//! Remembers the documents of locks that this backend has taken or extended.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncguard_core::{LockId, Timestamp};

use crate::document::Version;

/// The document of a lock as this backend wrote it last, and the expiry it has if no other client has
/// written it since.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) version: Version,
    pub(crate) expires_at: Timestamp,
}

/// A bounded cache. An evicted lock costs a query, and an outdated entry costs a failed commit before the
/// query. Neither gives a wrong answer, because every write states the version it is based on. A version
/// does not come back: Firestore's commit times only grow, even over deletion and creation.
///
/// The cache has two generations instead of a queue: when the younger one is full, the older one is
/// dropped as a whole. The work is constant, and at least the last `capacity / 2` locks are remembered.
pub(crate) struct Cache {
    generation: usize,
    locks: Mutex<Generations>,
}

#[derive(Default)]
struct Generations {
    younger: HashMap<LockId, Known>,
    older: HashMap<LockId, Known>,
}

impl Cache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { generation: capacity / 2, locks: Mutex::default() }
    }

    pub(crate) fn remember(&self, lock_id: LockId, known: Known) {
        if self.generation == 0 {
            return;
        }
        let mut locks = self.locks();
        // The answers to two concurrent extends may arrive in the other order.
        let known = match locks.remove(lock_id) {
            Some(before) if before.version.is_later_than(&known.version) => before,
            _ => known,
        };
        if locks.younger.len() >= self.generation {
            locks.older = std::mem::take(&mut locks.younger);
        }
        locks.younger.insert(lock_id, known);
    }

    /// Returns the name of the document that was last known to hold the lock with this id.
    pub(crate) fn name_of(&self, lock_id: LockId) -> Option<String> {
        let locks = self.locks();
        let known = locks.younger.get(&lock_id).or_else(|| locks.older.get(&lock_id));
        known.map(|known| known.version.name.clone())
    }

    /// Removes and returns the entry of a lock: the caller is about to change the lock.
    pub(crate) fn take(&self, lock_id: LockId) -> Option<Known> {
        self.locks().remove(lock_id)
    }

    fn locks(&self) -> MutexGuard<'_, Generations> {
        self.locks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Generations {
    fn remove(&mut self, lock_id: LockId) -> Option<Known> {
        let younger = self.younger.remove(&lock_id);
        younger.or_else(|| self.older.remove(&lock_id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known() -> Known {
        known_at("x", 0, 0)
    }

    fn known_at(name: &str, seconds: i64, nanos: i32) -> Known {
        let updated = gcloud_sdk::prost_types::Timestamp { seconds, nanos };
        Known {
            version: Version { name: name.to_owned(), updated },
            expires_at: Timestamp::from_millis(1).unwrap(),
        }
    }

    fn ids(count: usize) -> Vec<LockId> {
        (0..count).map(|_| LockId::generate().unwrap()).collect()
    }

    #[test]
    fn the_newest_half_at_least_is_remembered_and_no_more_than_all() {
        let cache = Cache::new(10);
        let ids = ids(103);
        for id in &ids {
            cache.remember(*id, known());
            let locks = cache.locks();
            assert!(locks.younger.len() + locks.older.len() <= 10);
        }
        for id in &ids[98..] {
            assert!(cache.take(*id).is_some());
            assert!(cache.take(*id).is_none());
        }
        assert!(cache.take(ids[0]).is_none());
    }

    #[test]
    fn one_lock_is_one_entry() {
        let cache = Cache::new(4);
        let ids = ids(2);
        for id in [0, 1, 0, 1, 1, 0] {
            cache.remember(ids[id], known());
        }
        assert!(cache.take(ids[0]).is_some() && cache.take(ids[0]).is_none());
        assert!(cache.take(ids[1]).is_some() && cache.take(ids[1]).is_none());
    }

    #[test]
    fn the_latest_version_of_a_document_stays() {
        let cache = Cache::new(10);
        let id = ids(1)[0];
        for (name, seconds, nanos, latest) in [
            ("x", 5, 1000, (5, 1000)),
            ("x", 4, 9000, (5, 1000)),
            ("x", 5, 0, (5, 1000)),
            ("x", 5, 2000, (5, 2000)),
            // Of two documents, the cache keeps the one that this process has written last.
            ("y", 1, 0, (1, 0)),
        ] {
            cache.remember(id, known_at(name, seconds, nanos));
            assert_eq!(cache.name_of(id).as_deref(), Some(name));
            let known = cache.take(id).unwrap().version;
            assert_eq!((known.updated.seconds, known.updated.nanos), latest);
            assert!(cache.name_of(id).is_none());
            cache.remember(id, known_at(name, latest.0, latest.1));
        }
    }

    #[test]
    fn a_memory_of_nothing_remembers_nothing() {
        let cache = Cache::new(0);
        let id = ids(1)[0];
        cache.remember(id, known());
        assert!(cache.take(id).is_none());
    }
}
