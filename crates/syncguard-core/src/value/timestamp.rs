//! Points in time by a store's clock.

use std::fmt;
use std::ops::Sub;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::error::LockError;
use super::ttl::Ttl;

/// A point in time by the store's time authority, in whole milliseconds since the Unix epoch.
///
/// The range is 0 to 2⁵³ − 1, which every store and JavaScript represent exactly.
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

    /// A timestamp from a clock of this process. Fractions of a millisecond are cut off.
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

    /// The timestamp as a [`SystemTime`].
    #[must_use]
    pub fn to_system_time(self) -> SystemTime {
        UNIX_EPOCH + Duration::from_millis(self.0)
    }

    /// The expiry of a lock that starts now.
    ///
    /// # Errors
    ///
    /// `Internal` if the sum is above 2⁵³ − 1 ms, which needs a store's clock some 280 000 years ahead.
    pub fn plus(self, ttl: Ttl) -> Result<Self, LockError> {
        match self.0 + ttl.as_millis() {
            millis if millis <= Self::MAX_MILLIS => Ok(Self(millis)),
            _ => Err(LockError::internal("the store's clock is beyond 2^53 - 1 ms")),
        }
    }
}

/// In UTC, in the form of RFC 3339: `2026-01-31T12:00:00.000Z`.
impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (days, millis) = (self.0 / DAY, self.0 % DAY);
        let (year, month, day) = date(days);
        let (hours, minutes) = (millis / 3_600_000, millis / 60_000 % 60);
        let (seconds, millis) = (millis / 1000 % 60, millis % 1000);
        write!(f, "{year:04}-{month:02}-{day:02}T{hours:02}:{minutes:02}:{seconds:02}.{millis:03}Z")
    }
}

/// A day in milliseconds.
const DAY: u64 = 24 * 60 * 60 * 1000;

/// Year, month and day of the Gregorian calendar for a number of days after 1970-01-01.
fn date(days: u64) -> (u64, u64, u64) {
    // Years begin on March 1, counted from 0000-03-01, so that a leap day is the last day of its year.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    (era * 400 + year + next, month, day)
}

/// The time from the earlier timestamp to this one; zero if this one is the earlier.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::Timestamp;
///
/// let (earlier, later) = (Timestamp::from_millis(1_000)?, Timestamp::from_millis(3_500)?);
/// assert_eq!(later - earlier, Duration::from_millis(2_500));
/// assert_eq!(earlier - later, Duration::ZERO);
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
impl Sub for Timestamp {
    type Output = Duration;

    fn sub(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl fmt::Debug for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timestamp({} ms)", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_rfc_3339_has_them() {
        for (millis, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_399_999, "2000-02-28T23:59:59.999Z"),
            (951_782_400_000, "2000-02-29T00:00:00.000Z"),
            (951_868_800_000, "2000-03-01T00:00:00.000Z"),
            (1_772_323_199_000, "2026-02-28T23:59:59.000Z"),
            (1_772_323_200_000, "2026-03-01T00:00:00.000Z"),
            (4_107_542_400_000, "2100-03-01T00:00:00.000Z"),
            ((1 << 53) - 1, "287396-10-12T08:59:00.991Z"),
        ] {
            assert_eq!(Timestamp::from_millis(millis).unwrap().to_string(), text, "{millis}");
        }
    }
}

#[cfg(feature = "serde")]
super::serde_form::as_millis!(Timestamp);
