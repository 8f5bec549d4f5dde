//! Riding out an outage of the store.

use std::time::Duration;

use crate::rt::Instant;
use crate::util::pause::RetryPauses;
use crate::value::ErrorCode;

/// For authors of recipes: the failures in a row of one call, which [rides them out](crate::LockConfig::with_ride_out) for a
/// time.
#[derive(Debug)]
pub struct RideOut {
    limit: Duration,
    /// When the first failure was seen.
    since: Option<Instant>,
    failures: u32,
}

impl RideOut {
    const PAUSES: RetryPauses =
        RetryPauses::new(Duration::from_millis(100), Duration::from_secs(1));

    /// No failure so far. Zero rides out nothing.
    #[must_use]
    pub const fn new(limit: Duration) -> Self {
        Self { limit, since: None, failures: 0 }
    }

    /// How long to wait after a failure with this code. `None` if the time to ride out is over, and for a failure that is no outage.
    /// `was_answered` says that the store has answered since the last failure.
    pub fn pause(&mut self, failure: ErrorCode, was_answered: bool) -> Option<Duration> {
        if !failure.is_retryable() || failure == ErrorCode::AcquisitionTimeout {
            return None;
        }
        if was_answered {
            *self = Self::new(self.limit);
        }
        let now = Instant::now();
        let ends = *self.since.get_or_insert(now) + self.limit;
        self.failures = self.failures.saturating_add(1);
        let pause = Self::PAUSES.pause(self.failures);
        // The last attempt is made at the end of the time to ride out.
        let left = ends.saturating_duration_since(now);
        (!left.is_zero()).then(|| pause.min(left))
    }
}
