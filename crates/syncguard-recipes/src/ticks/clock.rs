//! The clock by which a process asks for ticks.

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use syncguard_core::{CancellationToken, LockError, Timestamp};
use tokio::time::sleep;

/// The longest sleep. After it the clock is read again, because it may have been set. A clock that is further ahead of
/// the store's is reported, and `Ticks::try_once` does not wait for the store's time then.
pub(super) const LONGEST_SLEEP: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Clock(Arc<dyn Fn() -> SystemTime + Send + Sync>);

impl Clock {
    pub(super) fn new(clock: Arc<dyn Fn() -> SystemTime + Send + Sync>) -> Self {
        Self(clock)
    }

    pub(super) fn now(&self) -> Result<Timestamp, LockError> {
        Timestamp::from_system_time((self.0)())
            .map_err(|_| LockError::internal("this machine's clock is before 1970"))
    }

    /// Sleeps until the clock shows this time, or for ten seconds if that is less. Returns false if the token fires.
    pub(super) async fn sleep_towards(
        &self,
        time: Option<Timestamp>,
        shutdown: &CancellationToken,
    ) -> Result<bool, LockError> {
        let now = self.now()?;
        let left = time.map_or(LONGEST_SLEEP, |time| time - now);
        Ok(sleep_unless(left.min(LONGEST_SLEEP), shutdown).await)
    }
}

/// Returns false if the token fires first.
pub(super) async fn sleep_unless(time: Duration, shutdown: &CancellationToken) -> bool {
    tokio::select! {
        biased;
        () = shutdown.cancelled() => false,
        () = sleep(time) => true,
    }
}
