//! Remembers the documents of locks that this backend has taken or extended.

use syncguard_core::authoring::Recent;
use syncguard_core::{LockId, Timestamp};

use crate::document::Version;

/// The document of a lock as this backend wrote it last, and the expiry it has if no other client has
/// written it since.
#[derive(Clone)]
pub(crate) struct Known {
    pub(crate) version: Version,
    pub(crate) expires_at: Timestamp,
}

/// An evicted lock costs a query, and an outdated entry costs a failed commit before the query. Neither gives a wrong
/// answer, because every write states the version it is based on. A version does not come back: Firestore's commit times
/// only grow, even over deletion and creation.
pub(crate) struct Cache(Recent<LockId, Known>);

impl Cache {
    pub(crate) fn new(capacity: usize) -> Self {
        Self(Recent::new(capacity))
    }

    /// Remembers the document, unless a later version of it is remembered: the answers to two concurrent extends may arrive
    /// in the other order.
    pub(crate) fn remember(&self, lock_id: LockId, known: Known) {
        let version = known.version.clone();
        self.0.put_unless(lock_id, known, |before| before.version.is_later_than(&version));
    }

    /// Returns the name of the document that was last known to hold the lock with this id.
    pub(crate) fn name_of(&self, lock_id: LockId) -> Option<String> {
        self.0.look(&lock_id, |known| known.version.name.clone())
    }

    /// Removes and returns the entry of a lock: the caller is about to change the lock.
    pub(crate) fn take(&self, lock_id: LockId) -> Option<Known> {
        self.0.take(&lock_id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn known_at(name: &str, seconds: i64, nanos: i32) -> Known {
        let updated = gcloud_sdk::prost_types::Timestamp { seconds, nanos };
        Known {
            version: Version { name: name.to_owned(), updated },
            expires_at: Timestamp::from_millis(1).unwrap(),
        }
    }

    #[test]
    fn the_latest_version_of_a_document_stays() {
        let cache = Cache::new(10);
        let id = LockId::generate().unwrap();
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
}
