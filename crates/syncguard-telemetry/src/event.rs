//! What an observer of locks is told.

use std::fmt;
use std::time::Duration;

use syncguard_core::{ErrorCode, HashId, Key, LockId, LossReason, NotHeld};

/// Something that happened to a lock. TypeScript: `LockEvent`.
///
/// `Debug` never shows a key or a lock id, also where the event carries them.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct LockEvent {
    /// The short name of the backend, as its
    /// [capabilities](syncguard_core::BackendCapabilities::backend) say.
    pub backend: &'static str,
    /// What was done. TypeScript: `type`.
    pub kind: EventKind,
    /// How it went.
    pub result: EventResult,
    /// Why it failed, if that is an answer and no error.
    pub reason: Option<Reason>,
    /// What kind of error it ended with.
    pub error_code: Option<ErrorCode>,
    /// How long it took: the operation, the wait, or the hold.
    pub duration: Duration,
    /// How many acquires the wait took; for [`EventKind::Wait`] alone.
    pub attempts: Option<u32>,
    /// Why the lock was lost; for [`EventKind::Hold`] alone, and only if it failed.
    pub loss: Option<LossReason>,
    /// The hash of the key, where a key is involved.
    ///
    /// A release and an extend go by the lock id alone.
    pub key_hash: Option<HashId>,
    /// The hash of the lock id, where one is involved.
    ///
    /// For an acquire and a wait it is the id they asked for, granted or not: it ties the attempts
    /// of one call together, and says nothing of who holds the lock.
    pub lock_id_hash: Option<HashId>,
    /// The key itself, if the options allow it.
    pub key: Option<Key>,
    /// The lock id itself, if the options allow it.
    pub lock_id: Option<LockId>,
}

/// What an event is about: one of the five operations, or what [`lock`](syncguard_core::lock()) and
/// guards make of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// One attempt to take a lock.
    Acquire,
    /// A lock was to be given back.
    Release,
    /// A lock was to be kept for longer, by its holder or by auto-extend.
    Extend,
    /// Somebody asked whether a key is locked.
    IsLocked,
    /// Somebody asked for the details of a lock.
    Lookup,
    /// A call of `lock`, `acquire` or `try_lock` stopped trying.
    Wait,
    /// A lock that a guard held is over.
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

    /// Whether this is one of the five operations of a backend.
    #[must_use]
    pub const fn is_operation(self) -> bool {
        !matches!(self, Self::Wait | Self::Hold)
    }
}

/// Whether it worked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum EventResult {
    /// It did.
    Ok,
    /// It did not; a question was answered with no.
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

/// Why something was answered with no.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reason {
    /// Someone else holds the lock.
    Locked,
    /// The lock had expired.
    Expired,
    /// There is no such lock.
    NotFound,
}

impl Reason {
    /// `"locked"`, `"expired"` or `"not-found"`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Locked => "locked",
            Self::Expired => "expired",
            Self::NotFound => "not-found",
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

impl fmt::Display for EventKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for EventResult {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}
