//! The messages of the simulated network.

use syncguard_core::contract::KeyWatch;
use syncguard_core::{Key, LockId};

use crate::documents::{Read, Stored, Write};

/// A request. Times are the store's, in milliseconds.
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
    /// Releases a lock without an owner, and reports whether an acquire of the key is in progress.
    Settle {
        key: Key,
        id: LockId,
    },
    /// For Firestore, which has only documents.
    Read(Read),
    /// All writes or none.
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
    /// The writes whose sender may give up.
    pub(crate) fn deadline(&self) -> Option<u64> {
        match self {
            Self::Acquire { deadline, .. }
            | Self::Release { deadline, .. }
            | Self::Extend { deadline, .. } => Some(*deadline),
            _ => None,
        }
    }

    /// Returns true if it may change a lock.
    pub(crate) fn is_write(&self) -> bool {
        self.deadline().is_some() || matches!(self, Self::Commit(_))
    }
}

/// An answer.
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
    /// The key was free, and then another caller was faster.
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
    /// The request came after its deadline.
    Late {
        now: u64,
    },
    Is(bool),
    Found(Option<Record>),
    /// True if no acquire of the key was in progress.
    Look {
        is_alone: bool,
        now: u64,
    },
    /// The documents of a key, or the lock with an id.
    Documents {
        lock: Option<Stored<Record>>,
        counter: Option<Stored<u64>>,
    },
    Committed {
        updated: u64,
    },
    /// A precondition did not hold, and nothing was written.
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
    /// The server has aborted the request.
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

/// How long an expired lock counts as live.
pub(crate) const TOLERANCE: u64 = 1000;

impl Record {
    pub(crate) fn is_live(&self, now: u64) -> bool {
        self.expires_at + TOLERANCE > now
    }
}
