//! Failures of the store that a recipe outlasts.

use std::time::Duration;

use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::RetryPauses;
use syncguard_core::authoring::recipes::{Parting, release_as};
use syncguard_core::{LockBackend, LockError, LockGuard, ReleaseResult};

/// The pauses after failures of the store. The longest is also how often a process looks at a tick whose key is held, and
/// how long a process that has resigned lets the others go first: each of them asks once in this time, even in an outage.
pub(crate) const PAUSES: RetryPauses =
    RetryPauses::new(Duration::from_millis(50), Duration::from_secs(1));

/// A run of failures of the store. An answer of the store ends it, and so does a minute without a failure.
pub(crate) struct Outage {
    /// The recipe's work, in the log.
    work: &'static str,
    log: OutageLog,
    failures: u32,
}

impl Outage {
    pub(crate) fn new(work: &'static str) -> Self {
        Self { work, log: OutageLog::default(), failures: 0 }
    }

    pub(crate) fn end(&mut self) {
        let _ = self.log.ends();
    }

    /// The pause after this failure. The first failure of an outage is logged as a warning.
    ///
    /// # Errors
    ///
    /// The failure itself, if a retry cannot mend it.
    pub(crate) fn pause(&mut self, error: LockError) -> Result<Duration, LockError> {
        if !error.is_retryable() && !error.is_outcome_unknown() {
            return Err(error);
        }
        let (work, error_code) = (self.work, error.code().as_str());
        if self.log.begins() {
            self.failures = 0;
            tracing::warn!(
                error_code,
                %error,
                "{work} goes on although the store fails; further failures are logged at debug"
            );
        } else {
            tracing::debug!(error_code, %error, "the store still fails; {work} goes on");
        }
        self.failures = self.failures.saturating_add(1);
        Ok(PAUSES.pause(self.failures))
    }
}

/// Releases the lock of a piece of work, so that the next holder need not wait for the TTL. A failure is logged, and the
/// release goes on in the background.
pub(crate) async fn give_back<B: LockBackend>(
    guard: LockGuard<B>,
    parting: Parting,
    whose: &'static str,
) -> Result<ReleaseResult, LockError> {
    let released = release_as(guard, parting).await;
    if let Err(error) = &released {
        tracing::warn!(
            error_code = error.code().as_str(),
            %error,
            "the release of {whose} lock failed; it is tried again until the lock expires"
        );
    }
    released
}
