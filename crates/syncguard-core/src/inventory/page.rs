//! What an inventory answers.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use crate::authoring::hash_key;
use crate::contract::{FenceToken, HashId};
use crate::{Fence, Key, LockInfo};

/// A page of live locks.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockPage<F: FenceToken = Fence> {
    /// The locks, in the order of the listing. There can be fewer than asked for, none even, although more
    /// follow.
    pub locks: Vec<LockInfo<F>>,
    /// The hashes of the store's names of records that make no sense, as errors show them. Such a record
    /// never counts as free, and nothing clears it away.
    pub corrupt: Vec<HashId>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<Cursor>,
}

impl<F: FenceToken> LockPage<F> {
    /// For authors of backends.
    #[must_use]
    pub fn new(locks: Vec<LockInfo<F>>, corrupt: Vec<HashId>, next: Option<Cursor>) -> Self {
        Self { locks, corrupt, next }
    }
}

/// A page of fence counters.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct CounterPage {
    /// The counters, in the order of the listing. There can be fewer than asked for, none even, although
    /// more follow.
    pub counters: Vec<FenceCounter>,
    /// The hashes of the store's names of counters that make no sense.
    pub corrupt: Vec<HashId>,
    /// Where the next page begins; `None` if this is the last one.
    pub next: Option<Cursor>,
}

impl CounterPage {
    /// For authors of backends.
    #[must_use]
    pub fn new(counters: Vec<FenceCounter>, corrupt: Vec<HashId>, next: Option<Cursor>) -> Self {
        Self { counters, corrupt, next }
    }
}

/// What the last acquisition of a key was given, or what its counter was raised to since.
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

/// A place in a listing: where the next page begins.
///
/// Good for the same listing on the same store, with the same prefix. It holds no connection and keeps
/// nothing in the store, so it may lie around for as long as you like. `Debug` shows a hash.
#[derive(Clone)]
pub struct Cursor {
    place: Arc<str>,
    kept: Option<Arc<dyn Any + Send + Sync>>,
}

impl Cursor {
    /// For authors of backends: behind the entry with this name. The name may have the key in it.
    #[must_use]
    pub fn behind(place: impl Into<Arc<str>>) -> Self {
        Self { place: place.into(), kept: None }
    }

    /// For authors of backends: keeps something that saves the next page work. Whoever does not find it, goes
    /// by the [place](Self::expose_place) alone.
    #[must_use]
    pub fn keeping(mut self, kept: Arc<dyn Any + Send + Sync>) -> Self {
        self.kept = Some(kept);
        self
    }

    /// For authors of backends: the name of the last entry before the page. Keep it out of logs.
    #[must_use]
    pub fn expose_place(&self) -> &str {
        &self.place
    }

    /// For authors of backends: what was kept, if it is of this type.
    #[must_use]
    pub fn kept<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        Arc::clone(self.kept.as_ref()?).downcast().ok()
    }
}

impl fmt::Debug for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cursor").field(&hash_key(&self.place)).finish()
    }
}
