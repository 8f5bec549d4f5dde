//! The answers of a backend.

use std::time::Duration;

use super::fence_window::Refusal;
use super::liveness::TIME_TOLERANCE;
use crate::value::{Fence, FenceToken, LockId, Timestamp};

/// The answer to an acquire: contention is an answer, not an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an acquired lock is held until it is released or expires"]
pub enum AcquireResult<F = Fence> {
    /// The lock is granted.
    Acquired(Acquired<F>),
    /// Somebody else holds the lock.
    Busy(Contention),
    /// The lock is not granted within the request's [`FenceWindow`](crate::authoring::recipes::FenceWindow). Requests without a window never
    /// get this answer.
    Refused(Refusal),
}

impl<F> AcquireResult<F> {
    /// The lock, if it was granted.
    pub fn acquired(self) -> Option<Acquired<F>> {
        match self {
            Self::Acquired(acquired) => Some(acquired),
            Self::Busy(_) | Self::Refused(_) => None,
        }
    }

    /// True if somebody else holds the lock.
    #[must_use]
    pub const fn is_busy(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// True if the lock was granted.
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
    /// The id that releases and extends the lock.
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

/// The store's answer about a lock that someone else holds. The default is a lock of unknown expiry: a rival was faster, and no
/// more is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Contention {
    /// The longest time until the lock is free, unless its holder extends it: the rest of its TTL, and
    /// [`TIME_TOLERANCE`]. `None` if the store does not say.
    pub free_within: Option<Duration>,
    /// True if the lock's record has no field for the [holder](crate::contract::Holder), so that a client which only
    /// polls has written it, such as the TypeScript library. `false` if the store cannot tell.
    pub is_polled: bool,
}

impl Contention {
    /// A lock that is free after this time, [`TIME_TOLERANCE`] included.
    #[must_use]
    pub const fn free_within(time: Duration) -> Self {
        Self { free_within: Some(time), is_polled: false }
    }

    /// A lock that expires at this time. `now` is the time by the same clock.
    #[must_use]
    pub const fn until(expires_at: Timestamp, now: Timestamp) -> Self {
        let free_at = Duration::from_millis(expires_at.as_millis()).saturating_add(TIME_TOLERANCE);
        Self::free_within(free_at.saturating_sub(Duration::from_millis(now.as_millis())))
    }

    /// The same contention; says whether a client that only polls has written the lock's record.
    #[must_use]
    pub const fn with_polled(mut self, is_polled: bool) -> Self {
        self.is_polled = is_polled;
        self
    }
}

/// The answer to a release.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ReleaseResult {
    /// The lock was held and is free now.
    Released,
    /// The lock was held and is given up, but its [minimum hold](crate::LockConfig::with_min_hold) is not
    /// over: nobody gets the lock before this time. Guards give this answer, a backend never does.
    Kept {
        /// When the lock is free, by the store's time authority, [`TIME_TOLERANCE`] included.
        until: Timestamp,
    },
    /// The lock was no longer held under this id; nothing was changed.
    NotHeld(NotHeld),
}

impl ReleaseResult {
    /// True if the lock was held until now. It is free now, or at the end of its minimum hold.
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
    /// The lock is held, and expires at another time than the request
    /// [expected](crate::contract::ExtendRequest::with_expected_expiry): another extend came first. Nothing was
    /// changed.
    Mismatch {
        /// The present expiry, by the store's time authority.
        expires_at: Timestamp,
    },
    /// The lock was no longer held under this id; nothing was changed.
    NotHeld(NotHeld),
}

impl ExtendResult {
    /// True if the lock is held and lives on.
    #[must_use]
    pub const fn is_extended(self) -> bool {
        matches!(self, Self::Extended { .. })
    }
}

/// Why a lock was not held, as far as the store can tell without another query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum NotHeld {
    /// The lock's record is still there, past its expiry and the tolerance.
    Expired,
    /// There is no such lock: it was released, expired and cleared away, taken over, or never there.
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
