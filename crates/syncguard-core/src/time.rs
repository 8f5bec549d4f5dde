//! Points and spans of time, and the one rule that says whether a lock is live.

use std::fmt;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::LockError;

/// How long after its expiry a lock still counts as live, on every backend.
///
/// It covers small disagreements between clocks and delays contenders; the holder must stop at
/// the expiry itself. Not configurable, because a fleet whose members disagree on it is unsafe.
pub const TIME_TOLERANCE: Duration = Duration::from_secs(1);

/// Whether a lock is live: `expires_at > now - tolerance`. TypeScript: `isLive`.
///
/// The one predicate behind acquire, release, extend, `is_locked` and lookup. Never fails.
///
/// ```
/// use syncguard_core::{TIME_TOLERANCE, Timestamp, is_live};
///
/// let expiry = Timestamp::from_millis(10_000)?;
/// assert!(is_live(expiry, Timestamp::from_millis(10_999)?, TIME_TOLERANCE));
/// assert!(!is_live(expiry, Timestamp::from_millis(11_000)?, TIME_TOLERANCE));
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[must_use]
pub const fn is_live(expires_at: Timestamp, now: Timestamp, tolerance: Duration) -> bool {
    expires_at.0 as u128 + tolerance.as_millis() > now.0 as u128
}

/// For authors of backends: a timeout out of an option, from 1 ms to 100 years.
///
/// Longer ones would overflow when they are added to a point in time, which panics. `what` completes
/// the message: `dispose timeout`.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::checked_timeout;
///
/// assert!(checked_timeout("request timeout", Duration::from_secs(5)).is_ok());
/// let refused = checked_timeout("request timeout", Duration::MAX).unwrap_err();
/// assert!(refused.message().contains("1 ms to 100 years are allowed"));
/// ```
///
/// # Errors
///
/// `InvalidArgument` below one millisecond or above 100 years.
pub fn checked_timeout(what: &str, timeout: Duration) -> Result<Duration, LockError> {
    if Ttl::new(timeout).is_err() {
        return Err(LockError::invalid_argument(format!(
            "the {what} is {timeout:?}; 1 ms to 100 years are allowed"
        )));
    }
    Ok(timeout)
}

/// A point in time by the store's authority, in whole milliseconds since the Unix epoch.
///
/// Holds 0 to 2⁵³ − 1, what every store and JavaScript can represent exactly.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Timestamp(u64);

impl Timestamp {
    const MAX_MILLIS: u64 = (1 << 53) - 1;

    /// A timestamp from milliseconds since the Unix epoch.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` above 2⁵³ − 1 ms.
    pub fn from_millis(millis: u64) -> Result<Self, LockError> {
        if millis > Self::MAX_MILLIS {
            return Err(LockError::invalid_argument("a timestamp is at most 2^53 - 1 ms"));
        }
        Ok(Self(millis))
    }

    /// A timestamp from a clock of this process, fractions of a millisecond cut off.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` before the Unix epoch or above 2⁵³ − 1 ms.
    pub fn from_system_time(time: SystemTime) -> Result<Self, LockError> {
        let since = time
            .duration_since(UNIX_EPOCH)
            .map_err(|_| LockError::invalid_argument("a timestamp is not before 1970"))?;
        Self::from_millis(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
    }

    /// Milliseconds since the Unix epoch.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The same point as a [`SystemTime`].
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// The expiry of a lock that starts now.
    ///
    /// # Errors
    ///
    /// `Internal` if the sum passes 2⁵³ − 1 ms, which takes a store's clock some 280 000 years ahead.
    pub fn plus(self, ttl: Ttl) -> Result<Self, LockError> {
        match self.0 + ttl.as_millis() {
            millis if millis <= Self::MAX_MILLIS => Ok(Self(millis)),
            _ => Err(LockError::internal("the store's clock is beyond 2^53 - 1 ms")),
        }
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({} ms)", self.0)
    }
}

/// How long a lock lives unless it is extended: whole milliseconds, from 1 to 100 years.
///
/// Everything that takes a TTL also takes a [`Duration`], and refuses it when it is used.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::Ttl;
///
/// assert_eq!(Ttl::new(Duration::from_secs(30))?, Ttl::DEFAULT);
/// assert!(Ttl::new(Duration::from_micros(999)).is_err());
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ttl(u64);

impl Ttl {
    /// 30 seconds. TypeScript: `BACKEND_DEFAULTS.ttlMs`.
    pub const DEFAULT: Self = Self(30_000);

    /// One millisecond.
    pub const MIN: Self = Self(1);

    /// 100 years of 365 days.
    pub const MAX: Self = Self(100 * 365 * 24 * 60 * 60 * 1000);

    /// A TTL from a duration, fractions of a millisecond cut off.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` below one millisecond or above 100 years.
    pub fn new(duration: Duration) -> Result<Self, LockError> {
        Self::from_millis(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX))
    }

    /// A TTL from milliseconds.
    ///
    /// # Errors
    ///
    /// As [`Ttl::new`].
    pub fn from_millis(millis: u64) -> Result<Self, LockError> {
        if (Self::MIN.0..=Self::MAX.0).contains(&millis) {
            Ok(Self(millis))
        } else {
            Err(LockError::invalid_argument(format!(
                "TTL is {millis} ms; 1 ms to {} ms (100 years) are allowed",
                Self::MAX.0
            )))
        }
    }

    /// The TTL in milliseconds.
    #[must_use]
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The TTL as a duration.
    #[must_use]
    pub const fn as_duration(self) -> Duration {
        Duration::from_millis(self.0)
    }
}

impl Default for Ttl {
    fn default() -> Self {
        Self::DEFAULT
    }
}

impl From<Ttl> for Duration {
    fn from(ttl: Ttl) -> Self {
        ttl.as_duration()
    }
}

impl TryFrom<Duration> for Ttl {
    type Error = LockError;

    /// # Errors
    ///
    /// As [`Ttl::new`].
    fn try_from(duration: Duration) -> Result<Self, LockError> {
        Self::new(duration)
    }
}

impl fmt::Debug for Ttl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Ttl({} ms)", self.0)
    }
}

#[cfg(feature = "serde")]
crate::serde_form::as_millis!(Timestamp);
#[cfg(feature = "serde")]
crate::serde_form::as_millis!(Ttl);
