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
}

impl Outage {
    const SHORTEST: Duration = Duration::from_millis(100);
    const LONGEST: Duration = Duration::from_secs(1);

    /// How long to wait before the next attempt; `None` if the failure is the caller's to hear.
    ///
    /// `answered` says whether the store had answered since the failure before this one.
    pub(super) fn pause(
        &mut self,
        error: &LockError,
        answered: bool,
        ride_out: Duration,
    ) -> Option<Duration> {
        if ride_out.is_zero()
            || !error.is_retryable()
            || error.code() == ErrorCode::AcquisitionTimeout
        {
            return None;
        }
        if answered {
            *self = Self::default();
        }
        let now = Instant::now();
        let ends = *self.since.get_or_insert(now) + ride_out;
        let pause = Self::LONGEST.min(Self::SHORTEST * (1 << self.failures.min(4)));
        self.failures += 1;
        // The last attempt is made at the end, and not before it.
        let left = ends.saturating_duration_since(now);
        (!left.is_zero()).then(|| jittered(pause).min(left))
    }
}
