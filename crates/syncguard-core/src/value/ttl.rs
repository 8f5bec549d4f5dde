//! The time to live of a lock.

use std::fmt;
use std::time::Duration;

use super::error::LockError;

/// How long a lock lives unless it is extended: whole milliseconds, from 1 to 100 years.
///
/// Every function that takes a TTL also takes a [`Duration`], and refuses one that is out of range.
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

    /// A TTL from a duration. Fractions of a millisecond are cut off.
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

/// A [`Ttl`], or a [`Duration`] that becomes one.
///
/// Implement [`TryFrom`] for a type, not this trait.
pub trait IntoTtl {
    /// The TTL, or the reason why the duration cannot be one.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` as [`Ttl::new`].
    fn into_ttl(self) -> Result<Ttl, LockError>;
}

impl<T> IntoTtl for T
where
    T: TryInto<Ttl, Error: Into<LockError>>,
{
    fn into_ttl(self) -> Result<Ttl, LockError> {
        self.try_into().map_err(Into::into)
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
super::serde_form::as_millis!(Ttl);
