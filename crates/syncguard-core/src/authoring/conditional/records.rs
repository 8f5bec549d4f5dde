//! The records that a store has of a key, and how they change.

use crate::contract::info::LockInfo;
use crate::contract::is_live;
use crate::contract::response::NotHeld;
use crate::value::{Fence, Holder, Key, LockError, LockId, Timestamp};

/// A lock as it is stored.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "each store reads and writes every field")]
pub struct Record {
    /// The user's key.
    pub key: Key,
    /// The id that proves ownership.
    pub lock_id: LockId,
    /// When the lock was acquired, by the store's time.
    pub acquired_at: Timestamp,
    /// When the lock expires, by the store's time.
    pub expires_at: Timestamp,
    /// The fence of the acquisition.
    pub fence: Fence,
    /// `None` if another client has written the lock.
    pub holder: Option<Holder>,
    /// True if the lock is that of a client whose releases send no signal.
    pub is_polled: bool,
}

impl Record {
    /// Returns whether the lock is live at this time of the store.
    #[must_use]
    pub fn is_live(&self, now: Timestamp) -> bool {
        is_live(self.expires_at, now)
    }

    /// The answer of a lookup.
    #[must_use]
    pub fn into_info(self) -> LockInfo {
        LockInfo::new(self.key, self.lock_id, self.acquired_at, self.expires_at, self.fence)
            .with_holder(self.holder)
    }
}

/// A lock in the store, and the version that was read or written.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a pair")]
pub struct StoredLock<V> {
    /// The lock, which may have expired.
    pub record: Record,
    /// The version.
    pub version: V,
}

/// A fence counter in the store, and the version that was read or written.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a pair")]
pub struct Counter<V> {
    /// The last fence of the key.
    pub last: Fence,
    /// The version.
    pub version: V,
}

/// The parts of a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "each store reads each of them")]
pub enum Parts<'a> {
    /// The lock.
    Lock,
    /// The fence counter.
    Counter,
    /// The lock and the counter, as one step.
    Both,
    /// As `Both`, for an acquire: also whether its lock id is new, as far as the store can tell within the same request.
    Acquire {
        /// The id.
        lock_id: LockId,
        /// Another key whose lock had this id when this backend wrote it last.
        other: Option<&'a Key>,
    },
}

impl Parts<'_> {
    /// Returns whether the lock is one of the parts.
    #[must_use]
    pub fn have_lock(self) -> bool {
        self != Self::Counter
    }

    /// Returns whether the counter is one of the parts.
    #[must_use]
    pub fn have_counter(self) -> bool {
        self != Self::Lock
    }
}

/// The parts of a key as they were read; what was not asked for counts as absent.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "each store fills in every field")]
pub struct Seen<V> {
    /// The lock, which may have expired. An error for a corrupt one.
    pub lock: Result<Option<StoredLock<V>>, LockError>,
    /// The counter. An error for a corrupt one, which matters only once it is needed.
    pub counter: Result<Option<Counter<V>>, LockError>,
    /// Whether the lock id of [`Parts::Acquire`] is that of another key's lock.
    pub is_id_in_use: bool,
}

/// The locks with one id.
#[derive(Debug)]
#[allow(clippy::exhaustive_structs, reason = "each store fills in every field")]
pub struct Found<V> {
    /// The live one.
    pub lock: Result<StoredLock<V>, NotHeld>,
    /// Expired ones with the same id, which operations that write delete in the background.
    pub duplicates: Vec<StoredLock<V>>,
}

impl<V> From<Result<StoredLock<V>, NotHeld>> for Found<V> {
    fn from(lock: Result<StoredLock<V>, NotHeld>) -> Self {
        Self { lock, duplicates: Vec::new() }
    }
}

/// A change of a key's parts as one step, if each part that it writes is still as it was seen.
///
/// So a change that arrives late is void once one of its parts was written after it was seen.
#[derive(Debug)]
#[non_exhaustive]
pub struct Change<'a, V> {
    /// The key.
    pub key: &'a Key,
    /// The change of the lock, if it is a part.
    pub lock: Option<LockChange<'a, V>>,
    /// The counter as it was seen, `None` for an absent one, and its next value; if it is a part of the change.
    pub counter: Option<(Option<&'a Counter<V>>, Fence)>,
}

/// The change of a lock.
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "each store writes each of them")]
pub enum LockChange<'a, V> {
    /// The lock is written in the place of what was seen. The store may refuse an id that is not new.
    Take {
        /// The expired lock that was seen, or `None` for an absent one.
        seen: Option<&'a StoredLock<V>>,
        /// The lock.
        record: &'a Record,
    },
    /// The lock gets another expiry, and keeps all other fields, also those of later versions of this library.
    Extend {
        /// The lock that was seen.
        seen: &'a StoredLock<V>,
        /// Another expiry than that of the lock that was seen.
        expires_at: Timestamp,
    },
    /// The lock is deleted.
    Delete {
        /// The lock that was seen.
        seen: &'a StoredLock<V>,
    },
}

impl<'a, V> Change<'a, V> {
    pub(super) fn delete(seen: &'a StoredLock<V>) -> Self {
        Self { key: &seen.record.key, lock: Some(LockChange::Delete { seen }), counter: None }
    }

    pub(super) fn extend(seen: &'a StoredLock<V>, expires_at: Timestamp) -> Self {
        let lock = Some(LockChange::Extend { seen, expires_at });
        Self { key: &seen.record.key, lock, counter: None }
    }

    pub(super) fn count(key: &'a Key, seen: Option<&'a Counter<V>>, next: Fence) -> Self {
        Self { key, lock: None, counter: Some((seen, next)) }
    }

    /// The parts that the change writes.
    #[must_use]
    pub fn parts(&self) -> Parts<'static> {
        match (&self.lock, &self.counter) {
            (Some(LockChange::Take { record, .. }), _) => {
                Parts::Acquire { lock_id: record.lock_id, other: None }
            }
            (Some(_), Some(_)) => Parts::Both,
            (Some(_), None) => Parts::Lock,
            (None, _) => Parts::Counter,
        }
    }
}

/// The answer to a [`Change`].
#[derive(Debug)]
#[allow(clippy::exhaustive_enums, reason = "each store gives each of them")]
pub enum Written<V> {
    /// It was carried out. The new version of the lock, or after a deletion that of the counter; `None` if the store does not
    /// tell it, so that the next operation reads.
    Done(Option<V>),
    /// A condition did not hold, and nothing was written. The [`parts`](Change::parts) of the change as they are now.
    Refused(Seen<V>),
}
