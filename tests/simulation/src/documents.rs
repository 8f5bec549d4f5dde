//! The documents of Firestore, and what is written to them: see `document.rs` of that backend.

use syncguard_core::{Key, LockId};

use crate::protocol::Record;

/// A document as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Stored<T> {
    pub(crate) value: T,
    /// When it was changed last, in microseconds.
    pub(crate) updated: u64,
}

/// What must be true of a document for a commit to be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Condition {
    /// There is none.
    Absent,
    /// It was changed last then.
    Updated(u64),
    /// Nothing: only flaws write like that.
    None,
}

impl Condition {
    /// That it is what was read.
    pub(crate) fn as_read<T>(seen: Option<&Stored<T>>) -> Self {
        seen.map_or(Self::Absent, |seen| Self::Updated(seen.updated))
    }
}

/// What is to become of a document.
#[derive(Clone, Debug)]
pub(crate) enum Change {
    Lock(Record),
    /// Nothing else of the lock.
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

/// What is read.
#[derive(Clone, Debug)]
pub(crate) enum Read {
    /// Lock and counter of a key, both as they are at one time.
    Documents(Key),
    /// All locks with an id.
    Query(LockId),
}
