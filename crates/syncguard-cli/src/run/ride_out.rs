//! `--ride-out`: goes on asking while the store is away.

use std::time::Duration;

use syncguard::Jitter;
use syncguard::authoring::pause::Backoff;
use tokio::time::{Instant, sleep};

use crate::exit::{Failure, Status};
use crate::output::Output;
use crate::time::human;

/// An outage of the store that is ridden out for this time after the first failure. Zero reports the first failure.
pub(super) struct RideOut {
    limit: Duration,
    output: Output,
}

impl RideOut {
    const PAUSES: Backoff = Backoff {
        first: Duration::from_millis(100),
        longest: Duration::from_secs(1),
        jitter: Jitter::None,
    };

    pub(super) fn new(limit: Duration, output: Output) -> Self {
        Self { limit, output }
    }

    /// Repeats the attempt while it fails because the store is away. The attempts have the time between the failures, so
    /// an attempt that waits for the lock may take longer.
    ///
    /// # Errors
    ///
    /// The failure of the last attempt.
    pub(super) async fn over<T>(
        self,
        mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let (mut since, mut failures) = (None, 0);
        loop {
            let began = Instant::now();
            let failure = match attempt().await {
                Err(failure) if failure.status() == Status::UNAVAILABLE => failure,
                result => return result,
            };
            // The store has answered meanwhile.
            if began.elapsed() > self.limit {
                (since, failures) = (None, 0);
            }
            if since.is_none() && !self.limit.is_zero() {
                let limit = human(self.limit);
                self.output.note(format!("{failure}; asks again for up to {limit}"));
            }
            let over = *since.get_or_insert_with(Instant::now) + self.limit;
            let left = over.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(failure);
            }
            failures += 1;
            sleep(Self::PAUSES.pause(failures).min(left)).await;
        }
    }
}
