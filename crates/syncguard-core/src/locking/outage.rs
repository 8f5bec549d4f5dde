//! Going on while the store is away.

use std::time::Duration;

use crate::authoring::pause::jittered;
use crate::rt::Instant;
use crate::{ErrorCode, LockError};

/// Failures of the store in a row, of one acquisition.
#[derive(Default)]
pub(super) struct Outage {
    /// When the first one was seen.
    since: Option<Instant>,
    failures: u32,
    /// How often the store had been asked by the last one.
    attempts: u32,
}

impl Outage {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(1);

    /// Whether a failure is one to ride out.
    pub(super) fn has_begun(error: &LockError) -> bool {
        error.is_retryable() && error.code() != ErrorCode::AcquisitionTimeout
    }

    /// How long to wait after a failure, by which the store was asked so often; `None` if the time is over.
    pub(super) fn pause(&mut self, attempts: u32, ride_out: Duration) -> Option<Duration> {
        // The attempt that failed is one of them. A second one means an answer in between.
        if attempts > self.attempts + 1 {
            *self = Self::default();
        }
        self.attempts = attempts;
        let now = Instant::now();
        let ends = *self.since.get_or_insert(now) + ride_out;
        let pause = Self::LONGEST.min(Self::SHORTEST * (1 << self.failures.min(4)));
        self.failures += 1;
        // The last attempt is made at the end, and not before it.
        let left = ends.saturating_duration_since(now);
        (!left.is_zero()).then(|| jittered(pause).min(left))
    }
}
