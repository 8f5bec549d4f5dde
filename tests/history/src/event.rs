//! What is written down. Lock ids as hashes: they are secrets, and a hash tells them apart as well.

use serde::{Deserialize, Serialize};

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    /// When.
    pub at: Moment,
    /// Who.
    pub process: String,
    /// What.
    pub entry: Entry,
}

impl Line {
    /// In which order lines are read: by their times; where these are the same, what a moment brings
    /// before what it ends.
    pub(crate) fn order(&self) -> (u64, u8) {
        let kind = match self.entry {
            Entry::Called { .. } => 1,
            Entry::Answered { .. } => 2,
            _ => 0,
        };
        (self.at.steady, kind)
    }
}

/// A point in time, by both clocks of the machine. Ordered by the steady one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Moment {
    /// Microseconds by a clock that never goes back, the same for all processes of a machine.
    pub steady: u64,
    /// Milliseconds since 1970, to set beside what stores say.
    pub unix: u64,
}

/// What can happen.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    /// An operation begins.
    Called {
        /// Pairs it with its answer.
        number: u64,
        /// What is asked.
        call: Call,
    },
    /// An operation ends.
    Answered {
        /// Pairs it with its call.
        number: u64,
        /// What was answered.
        answer: Answer,
    },
    /// Something went wrong on purpose.
    Fault(Fault),
    /// A process was seen to be gone.
    Ended {
        /// Its name in the history.
        process: String,
    },
    /// What was wrong with the way to the server, or with the server, is over.
    Healed,
    /// What somebody found when all was quiet.
    Quiet {
        /// Live records in the store.
        live: u64,
        /// Tasks that a program of the fleet had left when it wanted to end.
        tasks: u64,
        /// Connections that were not back in their pool, or still open.
        borrowed: u64,
    },
    /// How many permits a semaphore has, by whoever uses it.
    Semaphore {
        /// Its key.
        key: String,
        /// How many permits.
        permits: u64,
    },
    /// The work of a leader was told to stop.
    Told {
        /// For how many microseconds its lock could still be relied on.
        left: u64,
    },
    /// What a register held in the end.
    Register {
        /// Its name.
        register: String,
        /// Its value.
        value: u64,
        /// How many writes it has taken.
        writes: u64,
    },
}

/// What a run does to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fault {
    /// A process was killed.
    Killed,
    /// A process was stopped, for longer than its locks last.
    Stopped,
    /// A connection was cut within a reply.
    Cut,
    /// All bytes were delayed.
    Delayed,
    /// All bytes were swallowed.
    Frozen,
    /// All connections were closed.
    Severed,
    /// A request was carried out, or tried to be, after its sender had been told of a failure.
    Late,
    /// A request or its reply was lost on the way.
    Lost,
    /// A request was carried out twice, or tried to be.
    Doubled,
    /// The server was started anew: what was under way in it is gone.
    Restarted,
    /// The server was stopped, for longer than anybody waits for it.
    ServerStopped,
    /// The server was killed and started again.
    ServerRestarted,
    /// The pooler before the server was killed and started again.
    PoolerRestarted,
    /// A replica took over from its master.
    FailedOver,
    /// Slots were moved from one server to another.
    Resharded,
    /// A program kept everybody from writing, and was killed in the middle of it.
    KeptOut,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are the fields of the requests")]
pub enum Call {
    /// `LockBackend::acquire`; the TTL in milliseconds.
    Acquire { key: String, lock: String, ttl: u64 },
    /// `LockBackend::release`.
    Release { lock: String },
    /// `LockBackend::extend`; the TTL in milliseconds, and the expiry that the lock was expected to have.
    Extend { lock: String, ttl: u64, expected: Option<u64> },
    /// `LockBackend::is_locked`.
    IsLocked { key: String },
    /// `LockBackend::lookup` by key.
    LookupKey { key: String },
    /// `LockBackend::lookup` by lock id.
    LookupLock { lock: String },
    /// A register is read, and told of the reader's fence.
    Claim { register: String, fence: u64 },
    /// A register is written, by whoever claimed it with this fence.
    Write { register: String, fence: u64, value: u64 },
}

/// What came of an operation. Times are the store's, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[expect(missing_docs, reason = "they are the fields of the results")]
pub enum Answer {
    /// The lock was granted.
    Acquired { fence: u64, expires_at: u64 },
    /// Somebody else has the lock.
    Locked,
    /// The lock was released.
    Released,
    /// The lock was extended.
    Extended { expires_at: u64 },
    /// The lock is held, and was not extended: it expires at another time than was expected.
    Mismatch { expires_at: u64 },
    /// The lock is not held any more.
    NotHeld,
    /// Whether the key is locked.
    Is(bool),
    /// A live lock.
    Found { lock: String, fence: u64, acquired_at: u64, expires_at: u64 },
    /// No live lock.
    Nothing,
    /// The register's value.
    Claimed { value: u64 },
    /// The register was written.
    Written,
    /// The register has seen a higher fence.
    Rejected,
    /// An error.
    Failed { code: String, unknown: bool },
    /// The caller stopped waiting.
    Dropped,
}
