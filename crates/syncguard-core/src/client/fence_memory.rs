//! The highest fences that this process was granted, to notice a store that has lost its counters.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{Arc, OnceLock};

use crate::rt::Mutex;
use crate::value::{Fence, Key};

/// Remembers the highest fence of the last 1024 keys. Clones share the memory, which is allocated at the first grant.
///
/// Fences that start again are the trace of a lost store: `FLUSHDB`, a restored backup, a failover to a server without
/// the data. The systems that the fences protect then refuse the new holders, or admit old ones.
#[derive(Clone, Default)]
pub(crate) struct FenceMemory(Arc<OnceLock<Table>>);

struct Table {
    hasher: RandomState,
    /// A key has its place in one set, so callers of different keys seldom meet.
    sets: Box<[Mutex<Set>]>,
}

/// The hashes of keys and their highest fences. The key that was used last comes first.
type Set = [(u64, Fence); WAYS];

const SETS: usize = 256;
const WAYS: usize = 4;

impl FenceMemory {
    /// Notes a granted fence. Returns the highest fence of the key before, if this one is not above it: once, because
    /// the memory goes on from this fence.
    pub(crate) fn note(&self, key: &Key, fence: Fence) -> Option<Fence> {
        let table = self.0.get_or_init(Table::default);
        let hash = table.hasher.hash_one(key);
        let mut set = table.sets.get(hash as u8 as usize)?.lock();
        let place = set.iter().position(|(known, _)| *known == hash);
        let before = place.and_then(|place| set.get(place)).map(|(_, fence)| *fence);
        if let Some(recent) = set.get_mut(..=place.unwrap_or(WAYS - 1)) {
            recent.rotate_right(1);
        }
        set[0] = (hash, fence);
        before.filter(|before| fence <= *before)
    }
}

impl Default for Table {
    fn default() -> Self {
        let set = || Mutex::new([(0, Fence::ZERO); WAYS]);
        Self { hasher: RandomState::new(), sets: (0..SETS).map(|_| set()).collect() }
    }
}

impl fmt::Debug for FenceMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FenceMemory")
    }
}
