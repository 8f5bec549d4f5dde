//! Why a lock is over.

use std::error::Error;
use std::fmt;

use crate::value::{ErrorCode, LockError};

/// Why a lock is no longer held.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum LossReason {
    /// The TTL ran out, by the local clock, before an extend succeeded.
    Expired,
    /// The store has answered that the lock is gone.
    NotHeld,
    /// The store has answered that the record of the lock is damaged, or that its table, file or database is gone or is
    /// another one: see [`LockError::is_record_lost`](crate::LockError::is_record_lost).
    RecordLost,
    /// The cap on the total hold of an auto-extended lock was reached.
    MaxHold,
    /// The backend panicked while it renewed an auto-extended lock, and no task renews the lock any more.
    RenewerPanicked,
    /// The holder itself released the lock or dropped its guard.
    Released,
}

impl LossReason {
    /// `"expired"`, `"not-held"`, `"record-lost"`, `"max-hold"`, `"renewer-panicked"` or `"released"`, as
    /// telemetry spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotHeld => "not-held",
            Self::RecordLost => "record-lost",
            Self::MaxHold => "max-hold",
            Self::RenewerPanicked => "renewer-panicked",
            Self::Released => "released",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Expired => "the lock is lost: its TTL ran out before an extend succeeded",
            Self::NotHeld => "the lock is lost: the store says that it is gone",
            Self::RecordLost => {
                "the lock is lost: the store says that its record is damaged, gone or replaced"
            }
            Self::MaxHold => "the lock is over: its longest hold was reached",
            Self::RenewerPanicked => "the lock is lost: the backend panicked while it renewed it",
            Self::Released => "the lock is over: its holder released it",
        })
    }
}

/// So that `?` takes the loss of [`Held::or_lost`](crate::Held::or_lost).
impl Error for LossReason {}

/// [`ErrorCode::LockLost`]. What the caller's error can be made from takes a loss as it takes any failure of the lock.
impl From<LossReason> for LockError {
    fn from(reason: LossReason) -> Self {
        Self::new(ErrorCode::LockLost, reason.to_string())
    }
}
