//! One limit for several waits.

use std::time::Duration;

use syncguard_core::authoring::answer_patience;
use syncguard_core::authoring::recipes::unanswered;
use syncguard_core::contract::Holder;
use syncguard_core::{ErrorCode, LockBackend, LockConfig, LockError, LockGuard, acquire};

/// The rest of a caller's limit for the wait for a lock.
#[derive(Clone, Copy)]
pub(crate) struct WaitLimit {
    /// The caller's limit. Errors name it.
    pub(crate) whole: Duration,
    pub(crate) left: Duration,
    /// How long the store took for its last answers.
    pub(crate) last_answer: Duration,
}

impl WaitLimit {
    /// Whether there is the time to ask again.
    pub(crate) fn has_time(&self) -> bool {
        self.left >= self.last_answer.max(Duration::from_millis(1))
    }

    /// Waits for the lock for as long as is left. The error of a wait in vain is `still_held`, also if the end of the time
    /// has cut off the last request.
    pub(crate) async fn acquire<B: LockBackend>(
        self,
        backend: &B,
        config: LockConfig,
        still_held: impl FnOnce(Option<&Holder>) -> LockError,
    ) -> Result<LockGuard<B>, LockError> {
        let acquisition = config.acquisition().with_timeout(self.left);
        let config = config.with_acquisition(acquisition);
        let key = config.key()?.clone();
        let began = tokio::time::Instant::now();
        // Boxed: otherwise the driver's future would be part of every caller's future.
        let result = Box::pin(acquire(backend, config)).await;
        result.map_err(|error| match error.code() {
            ErrorCode::AcquisitionTimeout => still_held(error.holder()),
            ErrorCode::NetworkTimeout if began.elapsed() >= self.left => {
                if self.left <= answer_patience(self.last_answer) {
                    still_held(None)
                } else {
                    unanswered(&key, self.whole)
                }
            }
            _ => error,
        })
    }
}
