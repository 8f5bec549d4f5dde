//! The answers of an inventory.

use crate::authoring::hash_key;
use crate::contract::HashId;
use crate::{Fence, Key};

use super::ListRequest;

/// A page of a listing: of live locks, or of fence counters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, in the order of the listing. There can be fewer than asked for, none even, although more
    /// follow.
    pub entries: Vec<T>,
    /// The hashes of the store's names of records that make no sense, as errors show them. Such a record
    /// never counts as free, and nothing clears it away.
    pub corrupt: Vec<HashId>,
    /// Asks for the next page; `None` if this is the last one.
    pub next: Option<ListRequest>,
}

impl<T> Page<T> {
    /// For authors of backends: an empty page, and the request that follows it.
    #[must_use]
    pub fn new(next: Option<ListRequest>) -> Self {
        Self { entries: Vec::new(), corrupt: Vec::new(), next }
    }

    /// For authors of backends: adds an entry, or the hash of this name if the record makes no sense.
    pub fn push<E>(&mut self, storage_name: &str, entry: Result<T, E>) {
        match entry {
            Ok(entry) => self.entries.push(entry),
            Err(_) => self.corrupt.push(hash_key(storage_name)),
        }
    }
}

/// The fence of the last acquisition of a key, or the value that its counter was raised to since.
///
/// `Debug` shows the hash of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FenceCounter {
    /// The key. It prints as its hash; [`Key::expose`] gives the text.
    pub key: Key,
    /// The counter. The next acquisition gets one more.
    pub last: Fence,
}

impl FenceCounter {
    /// For authors of backends: the key must be the user's, not the store's name for it.
    #[must_use]
    pub fn new(key: Key, last: Fence) -> Self {
        Self { key, last }
    }
}
