//! The messages of the simulated network.

use std::time::Duration;

use syncguard_core::contract::{FenceWindow, KeyWatch, Refusal};
use syncguard_core::{Fence, Key, LockError, LockId, Timestamp};
use syncguard_redis::fred::types::Value;

use crate::documents::{Read, Stored, Write};
use crate::redis;

/// A request. Times are the store's, in milliseconds.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Acquire {
        key: Key,
        id: LockId,
        ttl: u64,
        window: Option<Window>,
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
    Counter {
        key: Key,
    },
    /// Needs no deadline: late or twice, it has the same effect.
    Raise {
        key: Key,
        at_least: u64,
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
    /// A command of the real backend, on the connection of this number.
    Redis {
        connection: u64,
        command: &'static str,
        words: Vec<Value>,
    },
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
        match self {
            Self::Commit(_) | Self::Raise { .. } => true,
            Self::Redis { command, .. } => command.starts_with("EVAL"),
            _ => self.deadline().is_some(),
        }
    }

    pub(crate) fn is_extend(&self) -> bool {
        match self {
            Self::Extend { .. } => true,
            // The script, one key, and the arguments of extend.lua.
            Self::Redis { words, .. } => words.len() == 2 + 1 + 5,
            _ => false,
        }
    }

    /// The number of the connection that it takes.
    pub(crate) fn connection(&self) -> u64 {
        match self {
            Self::Redis { connection, .. } => *connection,
            _ => 0,
        }
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
    /// Refused by the fence window.
    Refused {
        why: Refused,
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
    Counter(Option<u64>),
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
    Redis(redis::Reply),
    Claimed {
        value: u64,
    },
    Written,
    Rejected,
    /// The server has aborted the request.
    Cancelled,
}

/// A fence window as it is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    pub(crate) at_least: u64,
    pub(crate) below: u64,
    /// Zero if any time will do.
    pub(crate) not_before: u64,
}

/// The answer of a store to an acquire in a window that is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refused {
    Taken { counter: u64 },
    TooEarly { wait: u64 },
}

impl Window {
    pub(crate) fn new(window: &FenceWindow) -> Self {
        Self {
            at_least: window.at_least().get(),
            below: window.below().get(),
            not_before: window.not_before().map_or(0, Timestamp::as_millis),
        }
    }

    /// Checked before the lock of another caller.
    pub(crate) fn is_taken(&self, counter: u64) -> Option<Refused> {
        (counter >= self.below).then_some(Refused::Taken { counter })
    }

    /// Checked if the key is free.
    pub(crate) fn is_early(&self, now: u64) -> Option<Refused> {
        (now < self.not_before).then(|| Refused::TooEarly { wait: self.not_before - now })
    }

    /// The fence that is granted.
    pub(crate) fn fence(window: Option<&Self>, counter: u64) -> u64 {
        window.map_or(counter + 1, |window| window.at_least.max(counter + 1))
    }
}

impl Refused {
    pub(crate) fn of(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Taken { counter } => Self::Taken { counter: counter.get() },
            Refusal::TooEarly { wait } => {
                Self::TooEarly { wait: u64::try_from(wait.as_millis()).unwrap_or(u64::MAX) }
            }
        }
    }

    pub(crate) fn refusal(self) -> Result<Refusal, LockError> {
        Ok(match self {
            Self::Taken { counter } => Refusal::Taken { counter: Fence::new(counter)? },
            Self::TooEarly { wait } => Refusal::TooEarly { wait: Duration::from_millis(wait) },
        })
    }
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
