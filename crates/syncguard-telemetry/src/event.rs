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
#[non_exhaustive]
pub struct LockEvent {
    /// The short name of the backend, as its
    /// [capabilities](syncguard_core::contract::BackendCapabilities::backend) say.
    pub backend: &'static str,
    /// The kind of event. TypeScript: `type`.
    pub kind: EventKind,
    /// The result of the operation, the wait or the hold.
    pub result: EventResult,
    /// Why the answer was no. An error has no reason; only a wait that ran out of time has both.
    pub reason: Option<Reason>,
    /// The code of the error that the operation or the wait ended with.
    pub error_code: Option<ErrorCode>,
    /// The duration of the operation, the wait, or the hold.
    pub duration: Duration,
    /// The number of acquires that the wait took; for [`EventKind::Wait`] only.
    pub attempts: Option<u32>,
    /// The part of the wait in which this caller stood behind other waiters of its process and did not ask the store;
    /// for [`EventKind::Wait`] only.
    pub queued: Option<Duration>,
    /// Why the lock was lost; for a failed [`EventKind::Hold`] only.
    pub loss: Option<LossReason>,
    /// The recipe that the lock is part of, such as `election`, `semaphore` or `lock_all`; for
    /// [`EventKind::Wait`] and [`EventKind::Hold`] only. See
    /// [`as_recipe`](syncguard_core::authoring::recipes::as_recipe).
    pub recipe: Option<&'static str>,
    /// The lock's holder, if it has a label and the event has the lock: after a granted acquire or wait, and at the end of a
    /// hold, that is this process itself; after a lookup, and after a wait that ran out of time, the process that has the
    /// lock. A release and an extend have only the lock id.
    pub holder: Option<Holder>,
    /// The family of the key, if the event has a key and the options
    /// [name families](crate::TelemetryOptions::with_key_family).
    pub key_family: Option<Arc<str>>,
    /// The hash of the key, if the event has one. A release and an extend have only the lock id.
    pub key_hash: Option<HashId>,
    /// The hash of the lock id, if the event has one.
    ///
    /// For an acquire and a wait this is the id of the request, granted or not: it is the same for all attempts of one
    /// call, and it does not identify the holder.
    pub lock_id_hash: Option<HashId>,
    /// The key itself, if the options allow it.
    pub key: Option<Key>,
    /// The lock id itself, if the options allow it.
    pub lock_id: Option<LockId>,
}

/// How an operation or a wait ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    Ok,
    /// The answer was no.
    No(Option<Reason>),
    Error(ErrorCode),
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
