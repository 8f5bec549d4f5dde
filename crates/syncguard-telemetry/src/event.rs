//! What an observer of locks is told.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use syncguard_core::contract::HashId;
use syncguard_core::{ErrorCode, Key, LockId, LossReason, NotHeld};

/// Something that happened to a lock. TypeScript: `LockEvent`.
///
/// `Debug` never shows a key or a lock id, also where the event carries them.
#[derive(Clone, Debug)]
pub struct LockEvent {
    pub(crate) backend: &'static str,
    pub(crate) what: What,
    pub(crate) duration: Duration,
    pub(crate) recipe: Option<&'static str>,
    pub(crate) key_family: Option<Arc<str>>,
    pub(crate) key_hash: Option<HashId>,
    pub(crate) lock_id_hash: Option<HashId>,
    pub(crate) key: Option<Key>,
    pub(crate) lock_id: Option<LockId>,
}

/// What happened, and how it ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum What {
    Operation(Operation, Outcome),
    Wait(Waited, Outcome),
    /// With why it was lost, if it was.
    Hold(Option<LossReason>),
}

/// What a wait took.
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
    /// An answer, but not the one that was wanted.
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

    /// What was done. TypeScript: `type`.
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

    /// How it went.
    #[must_use]
    pub const fn result(&self) -> EventResult {
        match self.what {
            What::Operation(_, Outcome::Ok) | What::Wait(_, Outcome::Ok) | What::Hold(None) => {
                EventResult::Ok
            }
            _ => EventResult::Fail,
        }
    }

    /// Why it failed, if that is an answer and no error. A wait that ran out of time has both.
    #[must_use]
    pub const fn reason(&self) -> Option<Reason> {
        match self.what {
            What::Operation(_, Outcome::No(reason)) | What::Wait(_, Outcome::No(reason)) => reason,
            What::Wait(_, Outcome::Error(ErrorCode::AcquisitionTimeout)) => Some(Reason::Locked),
            _ => None,
        }
    }

    /// What kind of error it ended with.
    #[must_use]
    pub const fn error_code(&self) -> Option<ErrorCode> {
        match self.what {
            What::Operation(_, Outcome::Error(code)) | What::Wait(_, Outcome::Error(code)) => {
                Some(code)
            }
            _ => None,
        }
    }

    /// How long it took: the operation, the wait, or the hold.
    #[must_use]
    pub const fn duration(&self) -> Duration {
        self.duration
    }

    /// How many acquires the wait took; for [`EventKind::Wait`] alone.
    #[must_use]
    pub const fn attempts(&self) -> Option<u32> {
        match self.what {
            What::Wait(waited, _) => Some(waited.attempts),
            _ => None,
        }
    }

    /// The part of the wait in which other waiters of this process stood before this one, so that it did not ask the
    /// store; for [`EventKind::Wait`] alone.
    #[must_use]
    pub const fn queued(&self) -> Option<Duration> {
        match self.what {
            What::Wait(waited, _) => Some(waited.queued),
            _ => None,
        }
    }

    /// Why the lock was lost; for [`EventKind::Hold`] alone, and only if it failed.
    #[must_use]
    pub const fn loss(&self) -> Option<LossReason> {
        match self.what {
            What::Hold(loss) => loss,
            _ => None,
        }
    }

    /// The recipe that the lock is part of, such as `election`, `semaphore` or `lock_all`; for
    /// [`EventKind::Wait`] and [`EventKind::Hold`] alone. See
    /// [`with_recipe`](syncguard_core::LockConfig::with_recipe).
    #[must_use]
    pub const fn recipe(&self) -> Option<&'static str> {
        self.recipe
    }

    /// The family of the key, where a key is involved and the options
    /// [name families](crate::TelemetryOptions::with_key_family).
    #[must_use]
    pub fn key_family(&self) -> Option<&str> {
        self.key_family.as_deref()
    }

    /// The hash of the key, where a key is involved.
    ///
    /// A release and an extend go by the lock id alone.
    #[must_use]
    pub const fn key_hash(&self) -> Option<HashId> {
        self.key_hash
    }

    /// The hash of the lock id, where one is involved.
    ///
    /// For an acquire and a wait it is the id they asked for, granted or not: it ties the attempts
    /// of one call together, and says nothing of who holds the lock.
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
    /// A call of `lock`, `acquire` or `try_acquire` stopped trying.
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
