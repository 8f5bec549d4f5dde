//! The events of a history. Lock ids are secrets, so they are recorded as hashes, which identify them as well.

use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Line {
    pub at: Moment,
    pub process: String,
    pub entry: Entry,
}

impl Line {
    /// The order in which lines are read: by time, and at the same time beginnings before ends.
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

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Entry {
    Called {
        /// The number that its answer repeats.
        number: u64,
        call: Call,
    },
    Answered {
        number: u64,
        answer: Answer,
    },
    Fault(Fault),
    Ended {
        process: String,
    },
    /// A fault of the network or the server has ended.
    Healed,
    /// The state at the end, after all work has ended.
    Quiet {
        live: u64,
        /// Tasks that a program of the fleet still had when it wanted to end.
        tasks: u64,
        /// Connections that were not back in their pool, or still open.
        borrowed: u64,
    },
    /// The number of permits of a semaphore, by one of its users.
    Semaphore {
        key: String,
        permits: u64,
    },
    /// The work of a leader was told to stop.
    Told {
        /// How much longer its lock was valid, in microseconds.
        left: u64,
    },
    /// The work of a scheduled tick begins.
    Tick {
        key: String,
        /// The tick's time, in seconds since 1970.
        tick: u64,
        attempt: u64,
        attempts: u64,
    },
    /// A reader or writer of a read/write lock relies on it from now on.
    Uses {
        key: String,
        /// The number of this use, with which it is noted again: when its time has grown, and at its end.
        number: u64,
        writes: bool,
        fence: u64,
        /// Until when it relies on the lock without another note, in microseconds of the steady clock; zero at its end.
        until: u64,
    },
    /// The final contents of a register.
    Register {
        register: String,
        value: u64,
        writes: u64,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Fault {
    Killed,
    /// A process was stopped, for longer than its locks last.
    Stopped,
    /// The same, and its monotonic clock stood still, as on a machine that sleeps.
    Suspended,
    Cut,
    Delayed,
    Frozen,
    Severed,
    /// A request arrived at the store after its sender had been told of a failure.
    Late,
    Lost,
    Doubled,
    /// The server was restarted: operations in progress are lost.
    Restarted,
    /// The server was stopped, for longer than any caller waits.
    ServerStopped,
    /// The server was killed and started again.
    ServerRestarted,
    /// The pooler in front of the server was killed and started again.
    PoolerRestarted,
    FailedOver,
    /// Slots were moved from one server to another.
    Resharded,
    /// All open connections of a process fell silent.
    Silent,
    /// A server's first address gave no answer to new connections.
    Hidden,
    Emptied,
    /// The server refused writes, as a replica or with a full disk.
    Refusing,
    /// A program kept all others from writing, and gave up in the middle of its write.
    KeptOut,
}

/// An operation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// A read of a register, which leaves the reader's fence.
    Claim { register: String, fence: u64 },
    /// A write of a register by the holder with this fence.
    Write { register: String, fence: u64, value: u64 },
}

/// The answer to an operation. Times are the store's, in milliseconds since 1970.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// The lock was granted.
    Acquired { fence: u64, expires_at: u64 },
    /// Another caller has the lock.
    Locked,
    /// The acquire was refused by its fence window.
    Refused,
    /// The lock was released.
    Released,
    /// The lock was extended.
    Extended { expires_at: u64 },
    /// The lock is held and was not extended, because its expiry was not the expected one.
    Mismatch { expires_at: u64 },
    /// The lock is not held any more.
    NotHeld,
    /// The answer to `is_locked`.
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
