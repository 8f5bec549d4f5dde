//! The memory of a backend for its own locks and for the keys that it has left free.

use syncguard_core::authoring::Recent;
use syncguard_core::{Fence, Key, LockId};

use crate::record::Held;

/// An entry that is gone costs a read, and an outdated one costs a failed condition. Neither gives a wrong answer, because
/// every write states the version that it is based on.
pub(crate) struct Memory {
    /// The locks that this backend has taken or extended, as it wrote them last.
    pub(crate) locks: Recent<LockId, Held>,
    /// The keys that this backend released last, and their counters. An acquire takes the entry out: the key of a lock is
    /// never in here, since a condition that fails is a write for etcd.
    pub(crate) free: Recent<Key, Fence>,
}

impl Memory {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { locks: Recent::new(capacity), free: Recent::new(capacity) }
    }

    /// Remembers the lock, unless a later version of it is remembered: the answers to two extends at once may arrive in the
    /// other order.
    pub(crate) fn remember(&self, held: Held) {
        let (lock_id, revision) = (held.record.lock_id, held.version.revision);
        self.locks.put_unless(lock_id, held, |before| before.version.revision > revision);
    }
}
