//! The events.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::contract::{HashId, Holder};
use syncguard_core::{ErrorCode, Key, LockId, LossReason, NotHeld};

/// Something that happened to a lock. TypeScript: `LockEvent`.
///
/// `Debug` never shows a key or a lock id, even if the event carries them.
#[derive(Clone, Debug)]
pub struct LockEvent {
    pub(crate) backend: &'static str,
    pub(crate) what: What,
    pub(crate) duration: Duration,
    pub(crate) recipe: Option<&'static str>,
    pub(crate) holder: Option<Holder>,
    pub(crate) key_family: Option<Arc<str>>,
    pub(crate) key_hash: Option<HashId>,
    pub(crate) lock_id_hash: Option<HashId>,
    pub(crate) key: Option<Key>,
    pub(crate) lock_id: Option<LockId>,
}

/// The kind of an event, and its outcome.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Operation(Operation, Outcome),
    Wait(Waited, Outcome),
    /// With the reason of a loss.
    Hold(Option<LossReason>),
}

/// The cost of a wait.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waited {
    pub(crate) attempts: u32,
    pub(crate) queued: Duration,
}

/// The five operations of a backend.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operation {
    Acquire,
    Release,
    Extend,
    IsLocked,
    Lookup,
}

/// How an operation or a wait ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Ok,
    /// The answer was no.
    No(Option<Reason>),
    Error(ErrorCode),
}

impl LockEvent {
    /// The short name of the backend, as its
    /// [capabilities](syncguard_core::contract::BackendCapabilities::backend) say.
    #[must_use]
    pub const fn backend(&self) -> &'static str {
        self.backend
    }

    /// The kind of event. TypeScript: `type`.
    #[must_use]
    pub const fn kind(&self) -> EventKind {
        match self.what {
            What::Operation(Operation::Acquire, _) => EventKind::Acquire,
            What::Operation(Operation::Release, _) => EventKind::Release,
            What::Operation(Operation::Extend, _) => EventKind::Extend,
            What::Operation(Operation::IsLocked, _) => EventKind::IsLocked,
            What::Operation(Operation::Lookup, _) => EventKind::Lookup,
            What::Wait(..) => EventKind::Wait,
            What::Hold(_) => EventKind::Hold,
        }
    }

    /// The result of the operation, the wait or the hold.
    #[must_use]
    pub const fn result(&self) -> EventResult {
        match self.what {
            What::Operation(_, Outcome::Ok) | What::Wait(_, Outcome::Ok) | What::Hold(None) => {
                EventResult::Ok
            }
            _ => EventResult::Fail,
        }
    }

    /// Why the answer was no. An error has no reason; only a wait that ran out of time has both.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self.what {
            What::Operation(_, Outcome::No(reason)) | What::Wait(_, Outcome::No(reason)) => reason,
            What::Wait(_, Outcome::Error(ErrorCode::AcquisitionTimeout)) => Some(Reason::Locked),
            _ => None,
        }
    }

    /// The code of the error that the operation or the wait ended with.
    #[must_use]
    pub const fn error_code(&self) -> Option<ErrorCode> {
        match self.what {
            What::Operation(_, Outcome::Error(code)) | What::Wait(_, Outcome::Error(code)) => {
                Some(code)
            }
            _ => None,
        }
    }

    /// The duration of the operation, the wait, or the hold.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// The number of acquires that the wait took; for [`EventKind::Wait`] only.
    #[must_use]
    pub const fn attempts(&self) -> Option<u32> {
        match self.what {
            What::Wait(waited, _) => Some(waited.attempts),
            _ => None,
        }
    }

    /// The part of the wait in which this caller stood behind other waiters of its process and did not ask the store;
    /// for [`EventKind::Wait`] only.
    #[must_use]
    pub const fn queued(&self) -> Option<Duration> {
        match self.what {
            What::Wait(waited, _) => Some(waited.queued),
            _ => None,
        }
    }

    /// Why the lock was lost; for a failed [`EventKind::Hold`] only.
    #[must_use]
    pub const fn loss(&self) -> Option<LossReason> {
        match self.what {
            What::Hold(loss) => loss,
            _ => None,
        }
    }

    /// The recipe that the lock is part of, such as `election`, `semaphore` or `lock_all`; for
    /// [`EventKind::Wait`] and [`EventKind::Hold`] only. See
    /// [`as_recipe`](syncguard_core::authoring::recipes::as_recipe).
    #[must_use]
    pub const fn recipe(&self) -> Option<&'static str> {
        self.recipe
    }

    /// The label of the lock's [holder](syncguard_core::contract::Holder), if it has one and the event has the lock: after
    /// a granted acquire or wait, and at the end of a hold, that is this process's own; after a lookup, and after a wait
    /// that ran out of time, that of the process that has the lock. A release and an extend have only the lock id.
    #[must_use]
    pub fn holder(&self) -> Option<&str> {
        self.holder.as_ref().map(Holder::label).filter(|label| !label.is_empty())
    }

    /// The family of the key, if the event has a key and the options
    /// [name families](crate::TelemetryOptions::with_key_family).
    #[must_use]
    pub fn key_family(&self) -> Option<&str> {
        self.key_family.as_deref()
    }

    /// The hash of the key, if the event has one. A release and an extend have only the lock id.
    #[must_use]
    pub const fn key_hash(&self) -> Option<HashId> {
        self.key_hash
    }

    /// The hash of the lock id, if the event has one.
    ///
    /// For an acquire and a wait this is the id of the request, granted or not: it is the same for all attempts of one
    /// call, and it does not identify the holder.
    #[must_use]
    pub const fn lock_id_hash(&self) -> Option<HashId> {
        self.lock_id_hash
    }

    /// The key itself, if the options allow it.
    #[must_use]
    pub const fn key(&self) -> Option<&Key> {
        self.key.as_ref()
    }

    /// The lock id itself, if the options allow it.
    #[must_use]
    pub const fn lock_id(&self) -> Option<LockId> {
        self.lock_id
    }
}

/// The kind of an event: one of the five operations of a backend, or a wait or hold of [`lock`](syncguard_core::lock())
/// and guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// An attempt to take a lock.
    Acquire,
    /// A release of a lock.
    Release,
    /// An extend of a lock, by its holder or by auto-extend.
    Extend,
    /// A question whether a key is locked.
    IsLocked,
    /// A lookup of the details of a lock.
    Lookup,
    /// The end of the wait of `lock`, `acquire` or `try_acquire`, with or without the lock.
    Wait,
    /// The end of the hold of a guard.
    Hold,
}

impl EventKind {
    /// `"acquire"`, `"release"`, `"extend"`, `"isLocked"` or `"lookup"`, as in TypeScript; `"wait"`
    /// or `"hold"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Acquire => "acquire",
            Self::Release => "release",
            Self::Extend => "extend",
            Self::IsLocked => "isLocked",
            Self::Lookup => "lookup",
            Self::Wait => "wait",
            Self::Hold => "hold",
        }
    }

    /// Returns true for the five operations of a backend.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        !matches!(self, Self::Wait | Self::Hold)
    }
}

/// The result of an operation, a wait or a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventResult {
    /// Success.
    Ok,
    /// Failure, or the answer no.
    Fail,
}

impl EventResult {
    /// `"ok"` or `"fail"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::Fail => "fail",
        }
    }
}

/// Why the answer was no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Someone else holds the lock.
    Locked,
    /// The lock had expired.
    Expired,
    /// There is no such lock.
    NotFound,
    /// The fences of the request's window are used up: the tick has been started.
    Taken,
    /// The time of the request's fence window has not come.
    TooEarly,
}

impl Reason {
    /// `"locked"`, `"expired"`, `"not-found"`, `"taken"` or `"too-early"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Expired => "expired",
            Self::NotFound => "not-found",
            Self::Taken => "taken",
            Self::TooEarly => "too-early",
        }
    }

    pub(crate) fn of(not_held: NotHeld) -> Option<Self> {
        match not_held {
            NotHeld::Expired => Some(Self::Expired),
            NotHeld::NotFound => Some(Self::NotFound),
            _ => None,
        }
    }
}

macro_rules! displayed {
    ($($type:ty),+) => {
        $(impl fmt::Display for $type {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(self.as_str())
            }
        })+
    };
}

displayed!(EventKind, EventResult, Reason);
