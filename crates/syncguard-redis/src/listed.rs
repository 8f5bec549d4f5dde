//! The name of a record that a sweep over the keyspace has found.

use std::cmp::Ordering;

/// The kind of records that a sweep looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Locks,
    Counters,
}

/// The name of a record, in the order of the users' keys.
#[derive(Clone)]
pub(crate) struct Listed {
    pub(crate) name: String,
    /// The index of its section in the layout.
    pub(crate) section: usize,
    rest_at: usize,
}

impl Listed {
    /// The user's key begins at the byte `rest_at`.
    pub(crate) fn new(name: &str, section: usize, rest_at: usize) -> Self {
        Self { name: name.to_owned(), section, rest_at }
    }

    /// The user's key, or its hash if the name is hashed.
    pub(crate) fn rest(&self) -> &str {
        &self.name[self.rest_at..]
    }
}

impl PartialEq for Listed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Listed {}

impl PartialOrd for Listed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Listed {
    fn cmp(&self, other: &Self) -> Ordering {
        self.rest().cmp(other.rest())
    }
}
