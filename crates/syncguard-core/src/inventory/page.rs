//! The answers of an inventory.

use super::request::ListRequest;
use crate::value::{Fence, HashId, Key, LockError, hash_key};

/// A page of a listing: of live locks, or of fence counters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Page<T> {
    /// The entries, in the order of the listing. A page can have fewer entries than asked for, or none, even if more
    /// pages follow.
    pub entries: Vec<T>,
    /// The names of corrupt records in the store, hashed as in errors. A corrupt record never counts as
    /// free, and nothing clears it away.
    pub corrupt: Vec<HashId>,
    /// The request for the next page; `None` after the last page.
    pub next: Option<ListRequest>,
}

impl<T> Page<T> {
    /// For authors of backends: an empty page, with the request for the next page.
    #[must_use]
    pub fn new(next: Option<ListRequest>) -> Self {
        Self { entries: Vec::new(), corrupt: Vec::new(), next }
    }

    /// For authors of backends: adds an entry, or the hash of the storage name if the record is corrupt.
    pub fn push<E>(&mut self, storage_name: &str, entry: Result<T, E>) {
        match entry {
            Ok(entry) => self.entries.push(entry),
            Err(_) => self.corrupt.push(hash_key(storage_name)),
        }
    }
}

/// The fence counter of a key: the fence of its last acquisition, or more if the counter was raised since.
///
/// `Debug` shows the hash of the key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct FenceCounter {
    /// The key. `Debug` prints its hash; [`Key::expose`] gives the text.
    pub key: Key,
    /// The counter. The fence of the next acquisition is one higher.
    pub last: Fence,
}

impl FenceCounter {
    /// For authors of backends: the key must be the user's key, not its storage name.
    #[must_use]
    pub fn new(key: Key, last: Fence) -> Self {
        Self { key, last }
    }

    /// For authors of backends: the counter of the key with this text in the store.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a text that is no key, or that is not in NFC: no acquire uses the counter under that name.
    pub fn stored(text: &str, last: Fence) -> Result<Self, LockError> {
        let key = Key::new(text)?;
        if key.expose() != text {
            return Err(LockError::invalid_argument("the name of a counter is not in NFC"));
        }
        Ok(Self::new(key, last))
    }
}
