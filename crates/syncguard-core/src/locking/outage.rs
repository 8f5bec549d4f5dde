//! Riding out an outage of the store.

use std::time::Duration;

use crate::rt::Instant;
use crate::util::pause::Backoff;
use crate::value::{ErrorCode, LockError};

/// The failures in a row of one acquisition.
#[derive(Default)]
pub(super) struct Outage {
    /// When the first failure was seen.
    since: Option<Instant>,
    failures: u32,
}

impl Outage {
    const PAUSES: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(1));

    /// Whether to ride out this failure.
    pub(super) fn has_begun(error: &LockError) -> bool {
        error.is_retryable() && error.code() != ErrorCode::AcquisitionTimeout
    }

    /// How long to wait after a failure; `None` if the time to ride out is over. `was_answered` says that the
    /// store has answered since the last failure.
    pub(super) fn pause(&mut self, was_answered: bool, ride_out: Duration) -> Option<Duration> {
        if was_answered {
            *self = Self::default();
        }
        let now = Instant::now();
        let ends = *self.since.get_or_insert(now) + ride_out;
        self.failures = self.failures.saturating_add(1);
        let pause = Self::PAUSES.pause(self.failures);
        // The last attempt is made at the end of the time to ride out.
        let left = ends.saturating_duration_since(now);
        (!left.is_zero()).then(|| pause.min(left))
    }
}
