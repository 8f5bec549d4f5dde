//! What a backend answers.

use crate::{Fence, FenceToken, LockId, Timestamp};

/// The answer to an acquire: contention is an answer, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an acquired lock is held until it is released or expires"]
pub enum AcquireResult<F = Fence> {
    /// The lock is ours.
    Acquired(Acquired<F>),
    /// Someone else holds the lock.
    Locked,
}

impl<F> AcquireResult<F> {
    /// The lock, if it was granted.
    pub fn acquired(self) -> Option<Acquired<F>> {
        match self {
            Self::Acquired(acquired) => Some(acquired),
            Self::Locked => None,
        }
    }

    /// Whether the lock was granted.
    #[must_use]
    pub const fn is_acquired(&self) -> bool {
        matches!(self, Self::Acquired(_))
    }
}

/// A granted lock. TypeScript: `AcquireOk`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an acquired lock is held until it is released or expires"]
#[non_exhaustive]
pub struct Acquired<F = Fence> {
    /// What releases and extends the lock.
    pub lock_id: LockId,
    /// When the lock expires, by the store's time authority. Do not compare it with a local clock.
    pub expires_at: Timestamp,
    /// The fencing token: a [`Fence`] on a backend that fences.
    pub fence: F,
}

impl<F: FenceToken> Acquired<F> {
    /// For authors of backends.
    pub fn new(lock_id: LockId, expires_at: Timestamp, fence: F) -> Self {
        Self { lock_id, expires_at, fence }
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseResult {
    /// The lock was ours and is free now.
    Released,
    /// The lock was not ours any more; nothing was changed.
    NotHeld(NotHeld),
}

impl ReleaseResult {
    /// Whether the lock was ours until now.
    #[must_use]
    pub const fn is_released(self) -> bool {
        matches!(self, Self::Released)
    }
}

/// The answer to an extend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[must_use = "a lock that could not be extended is lost"]
#[non_exhaustive]
pub enum ExtendResult {
    /// The lock lives for the requested TTL from now on.
    Extended {
        /// The new expiry, by the store's time authority.
        expires_at: Timestamp,
    },
    /// The lock is ours, and expires at another time than the request
    /// [expected](crate::ExtendRequest::with_expected_expiry): another extend came first. Nothing was
    /// changed.
    Mismatch {
        /// The expiry as it is, by the store's time authority.
        expires_at: Timestamp,
    },
    /// The lock was not ours any more; nothing was changed.
    NotHeld(NotHeld),
}

impl ExtendResult {
    /// Whether the lock is ours and lives on.
    #[must_use]
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::Extended { .. })
    }
}

/// Why a lock was not held, as far as the store can tell without another look.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotHeld {
    /// The lock's record is still there, past its expiry and the tolerance.
    Expired,
    /// There is no such lock: released, expired and cleared away, taken over, or never there.
    NotFound,
}

impl NotHeld {
    /// `"expired"` or `"not-found"`, as telemetry spells it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Expired => "expired",
            Self::NotFound => "not-found",
        }
    }
}
