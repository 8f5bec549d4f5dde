//! The highest fences that this process was granted, to notice a store that has lost its counters.

use std::collections::hash_map::RandomState;
use std::fmt;
use std::hash::BuildHasher as _;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

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

/// One for each value of a byte of the hash.
const SETS: usize = 256;
const WAYS: usize = 4;

impl FenceMemory {
    /// Notes a granted fence. Returns the highest fence of the key before, if this one is not above it: once, because
    /// the memory goes on from this fence.
    pub(crate) fn note(&self, key: &Key, fence: Fence) -> Option<Fence> {
        let table = self.0.get_or_init(Table::default);
        let hash = table.hasher.hash_one(key);
        let [.., low] = hash.to_be_bytes();
        let set = table.sets.get(usize::from(low))?;
        let mut set = set.lock().unwrap_or_else(PoisonError::into_inner);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_drop_is_told_once_and_the_number_of_keys_is_bounded() {
        let memory = FenceMemory::default();
        let note = |key: &str, fence| {
            let noted = memory.note(&Key::new(key).unwrap(), Fence::new(fence).unwrap());
            noted.map(Fence::get)
        };
        assert_eq!((note("a", 38), note("a", 39), note("b", 1)), (None, None, None));
        // The first fence after the loss, and a fence that is handed out twice.
        assert_eq!(
            (note("a", 1), note("a", 2), note("a", 2), note("a", 3)),
            (Some(39), None, Some(2), None)
        );
        assert_eq!(note("b", 2), None);
        for other in 0..100 * SETS * WAYS {
            note(&other.to_string(), 1);
        }
        assert_eq!(note("a", 1), None, "forgotten");
        // The keys that are used most are the last to be forgotten.
        note("a", 7);
        for other in 0..100 * SETS * WAYS {
            note(&other.to_string(), 1);
            note("a", 7 + other as u64);
        }
        assert_eq!(note("a", 1), Some(100 * (SETS * WAYS) as u64 + 6));
    }
}
