//! The name of a record that a sweep over the keyspace has found.

use std::cmp::Ordering;

/// The kind of records that a sweep looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RecordKind {
    Lock,
    Counter,
}

/// The name of a record, in the order of the users' keys.
#[derive(Clone)]
pub(crate) struct RecordName {
    pub(crate) name: String,
    /// The index of its section in the layout.
    pub(crate) section: usize,
    key_at: usize,
}

impl RecordName {
    /// The user's key begins at the byte `key_at`.
    pub(crate) fn new(name: &str, section: usize, key_at: usize) -> Self {
        Self { name: name.to_owned(), section, key_at }
    }

    /// The user's key, or its hash if the name is hashed.
    pub(crate) fn user_key(&self) -> &str {
        &self.name[self.key_at..]
    }
}

impl PartialEq for RecordName {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RecordName {}

impl PartialOrd for RecordName {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for RecordName {
    fn cmp(&self, other: &Self) -> Ordering {
        self.user_key().cmp(other.user_key())
    }
}
