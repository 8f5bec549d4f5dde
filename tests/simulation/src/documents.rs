//! The documents of Firestore and their writes: see `document.rs` of that backend.

use syncguard_core::{Key, LockId};

use crate::protocol::Record;

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<T> {
    pub(crate) value: T,
    /// The time of its last change, in microseconds.
    pub(crate) updated: u64,
}

/// The precondition of a commit on a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// The document must not exist.
    Absent,
    /// The document must have this time of its last change.
    Updated(u64),
    /// No precondition; only flaws use this.
    None,
}

impl Condition {
    /// The document must be as it was read.
    pub(crate) fn as_read<T>(seen: Option<&Stored<T>>) -> Self {
        seen.map_or(Self::Absent, |seen| Self::Updated(seen.updated))
    }
}

/// The new state of a document.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Lock(Record),
    /// Changes no other field of the lock.
    Expiry(Key, u64),
    NoLock(Key),
    Counter(Key, u64),
}

/// One change of a commit.
#[derive(Clone, Debug)]
pub(crate) struct Write {
    pub(crate) change: Change,
    pub(crate) condition: Condition,
}

/// The subject of a read.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    /// Lock and counter of a key, both at the same time.
    Documents(Key),
    /// All locks with an id.
    Query(LockId),
}
