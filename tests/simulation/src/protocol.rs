//! What goes over the simulated network.

use syncguard_core::contract::KeyWatch;
use syncguard_core::{Key, LockId};

use crate::documents::{Read, Stored, Write};

/// What is asked. Times are the store's, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Acquire {
        key: Key,
        id: LockId,
        ttl: u64,
        deadline: u64,
    },
    Release {
        id: LockId,
        deadline: u64,
    },
    Extend {
        id: LockId,
        ttl: u64,
        expected: Option<u64>,
        deadline: u64,
    },
    IsLocked {
        key: Key,
    },
    ByKey {
        key: Key,
    },
    ById {
        id: LockId,
    },
    /// Releases what nobody wants, and says whether anybody is in the middle of acquiring the key.
    Settle {
        key: Key,
        id: LockId,
    },
    /// Of Firestore, which knows documents only.
    Read(Read),
    /// All of it or nothing.
    Commit(Vec<Write>),
    Watch {
        key: Key,
    },
    Time,
    Claim {
        register: usize,
        fence: u64,
    },
    Write {
        register: usize,
        fence: u64,
        value: u64,
    },
}

impl Request {
    /// The writes whose sender may give up on them.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self {
            Self::Acquire { deadline, .. }
            | Self::Release { deadline, .. }
            | Self::Extend { deadline, .. } => Some(*deadline),
            _ => None,
        }
    }

    /// Whether it may change a lock.
    pub(crate) fn is_write(&self) -> bool {
        self.deadline().is_some() || matches!(self, Self::Commit(_))
    }
}

/// What is answered.
#[derive(Debug)]
pub(crate) enum Reply {
    Granted {
        fence: u64,
        expires_at: u64,
        is_fresh: bool,
    },
    Held {
        expires_at: u64,
        now: u64,
    },
    /// It was free, and then somebody else was faster.
    Overtaken,
    Released,
    Extended {
        expires_at: u64,
    },
    Mismatch {
        expires_at: u64,
    },
    NotHeld {
        is_expired: bool,
        now: u64,
    },
    /// It came after its deadline.
    Late {
        now: u64,
    },
    Is(bool),
    Found(Option<Record>),
    /// Whether nobody was in the middle of acquiring the key.
    Look {
        is_alone: bool,
        now: u64,
    },
    /// What there is of a key, or the lock with an id.
    Documents {
        lock: Option<Stored<Record>>,
        counter: Option<Stored<u64>>,
    },
    Committed {
        updated: u64,
    },
    /// A precondition did not hold; nothing was written.
    Conflict,
    Watching(KeyWatch),
    Time {
        now: u64,
    },
    Claimed {
        value: u64,
    },
    Written,
    Rejected,
    /// The server has stopped carrying it out.
    Cancelled,
}

/// A lock as it is stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) id: LockId,
    pub(crate) fence: u64,
    pub(crate) acquired_at: u64,
    pub(crate) expires_at: u64,
}

/// For how long an expired lock counts as live.
pub(crate) const TOLERANCE: u64 = 1000;

impl Record {
    pub(crate) fn is_live(&self, now: u64) -> bool {
        self.expires_at + TOLERANCE > now
    }
}
