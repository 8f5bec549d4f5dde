//! What a backend answers.

use std::time::Duration;

use crate::contract::{FenceToken, TIME_TOLERANCE};
use crate::{Fence, LockId, Timestamp};

/// The answer to an acquire: contention is an answer, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an acquired lock is held until it is released or expires"]
pub enum AcquireResult<F = Fence> {
    /// The lock is ours.
    Acquired(Acquired<F>),
    /// Someone else holds the lock.
    Locked(Contention),
}

impl<F> AcquireResult<F> {
    /// The lock, if it was granted.
    pub fn acquired(self) -> Option<Acquired<F>> {
        match self {
            Self::Acquired(acquired) => Some(acquired),
            Self::Locked(_) => None,
        }
    }

    /// Whether someone else holds the lock.
    #[must_use]
    pub const fn is_locked(&self) -> bool {
        matches!(self, Self::Locked(_))
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

/// What the store says of a lock that someone else holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// How long it takes at most until the lock is free, unless its holder extends it: what is left of its
    /// TTL, and [`TIME_TOLERANCE`]. `None` if the store has not said.
    pub free_within: Option<Duration>,
    /// Whether the holder is a client that only polls: the store keeps [holders](crate::contract::Holder), and the
    /// lock was written without one, by the TypeScript library or an older version of this one, or by a process that
    /// hears no signals and says so. `false` if the store cannot tell.
    pub holder_polls: bool,
}

impl Contention {
    /// A lock of unknown expiry: someone was faster, and more is not known.
    #[must_use]
    pub const fn unknown() -> Self {
        Self { free_within: None, holder_polls: false }
    }

    /// A lock that is free after this time, [`TIME_TOLERANCE`] included.
    #[must_use]
    pub const fn free_within(time: Duration) -> Self {
        Self { free_within: Some(time), holder_polls: false }
    }

    /// A lock that expires at this time, when it is `now` by the same clock.
    #[must_use]
    pub const fn until(expires_at: Timestamp, now: Timestamp) -> Self {
        let free_at = Duration::from_millis(expires_at.as_millis()).saturating_add(TIME_TOLERANCE);
        Self::free_within(free_at.saturating_sub(Duration::from_millis(now.as_millis())))
    }

    /// The same, and whether the holder is a client that only polls.
    #[must_use]
    pub const fn with_holder_polls(mut self, polls: bool) -> Self {
        self.holder_polls = polls;
        self
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseResult {
    /// The lock was ours and is free now.
    Released,
    /// The lock was ours and is given up, but its [minimum hold](crate::LockConfig::with_min_hold) is not
    /// over: nobody gets it before this time. Guards answer this, a backend never does.
    Kept {
        /// When the lock is free, by the store's time authority, [`TIME_TOLERANCE`] included.
        until: Timestamp,
    },
    /// The lock was not ours any more; nothing was changed.
    NotHeld(NotHeld),
}

impl ReleaseResult {
    /// Whether the lock was ours until now. It is free, or will be at the end of its minimum hold.
    #[must_use]
    pub const fn is_released(self) -> bool {
        matches!(self, Self::Released | Self::Kept { .. })
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
    /// [expected](crate::contract::ExtendRequest::with_expected_expiry): another extend came first. Nothing was
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
