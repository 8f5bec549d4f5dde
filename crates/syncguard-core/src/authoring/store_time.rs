//! A point in time by a store's clock.

use std::time::Duration;

use crate::contract::clock_drift::ClockDrift;
use crate::contract::liveness::TIME_TOLERANCE;
use crate::value::{ErrorCode, LockError, Timestamp};

/// The store's time: the true one is within the bounds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoreTime {
    /// The time that the store's clock shows at least. It decides whether a lock is over, and whether a tick may begin.
    pub earliest: Timestamp,
    /// The time that the store's clock shows at most. Expiries are counted from it.
    pub latest: Timestamp,
    /// False if the store has told no time, so that the bounds are those of this machine's wall clock.
    pub is_told: bool,
}

impl StoreTime {
    /// `None` for a time out of range.
    pub(super) fn from_micros(earliest: i64, latest: i64, is_told: bool) -> Option<Self> {
        let earliest = Timestamp::from_millis(u64::try_from(earliest).ok()? / 1000).ok()?;
        let latest = Timestamp::from_millis(u64::try_from(latest).ok()?.div_ceil(1000)).ok()?;
        Some(Self { earliest, latest, is_told })
    }

    /// How far the bounds are apart.
    #[must_use]
    pub fn width(self) -> Duration {
        self.latest - self.earliest
    }

    /// Checks that a strict backend may take a lock; `takes_over` is true for one that another holder has left.
    ///
    /// # Errors
    ///
    /// `ServiceUnavailable` if the store has not told its time, or, to take a lock over, if the bounds are further apart than
    /// the tolerance.
    pub fn check(self, takes_over: bool) -> Result<(), LockError> {
        let refused = |why| Err(LockError::new(ErrorCode::ServiceUnavailable, why));
        if !self.is_told {
            return refused(
                "the store's time is not known, and a strict backend takes no lock by this machine's clock".to_owned(),
            );
        }
        if takes_over && self.width() > TIME_TOLERANCE {
            let width = self.width().as_millis();
            return refused(format!(
                "the store's time is known to within {width} ms only, and a strict backend takes a lock over within \
                 {} ms",
                TIME_TOLERANCE.as_millis()
            ));
        }
        Ok(())
    }

    pub(super) fn ahead_of(self, other: Self) -> ClockDrift {
        let millis = |time: Timestamp| i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        ClockDrift::between(
            millis(self.earliest) - millis(other.latest),
            millis(self.latest) - millis(other.earliest),
        )
    }
}
