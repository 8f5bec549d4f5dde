//! Waiting for the lead, without a limit.

use std::time::Duration;

use syncguard_core::authoring::pause::jittered;
use syncguard_core::{
    AcquisitionOptions, CancellationToken, ErrorCode, LockBackend, LockConfig, LockError,
    LockGuard, acquire,
};
use tokio::time::sleep;

/// The pause after a failure of the store; it doubles with each failure.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A wait needs a limit. When it is over, the next wait begins.
const WAIT_LIMIT: Duration = Duration::from_secs(60 * 60);

/// Waits until the lock is granted; `None` at shutdown. The guard is boxed, because the future that holds it would
/// otherwise contain it several times.
pub(super) async fn win<B: LockBackend>(
    backend: &B,
    config: &LockConfig,
    shutdown: &CancellationToken,
) -> Result<Option<Box<LockGuard<B>>>, LockError> {
    let config = config
        .clone()
        .with_acquisition(AcquisitionOptions::new().with_timeout(WAIT_LIMIT))
        .with_cancellation(shutdown.clone());
    let mut pause = FIRST_PAUSE;
    loop {
        // Boxed: otherwise the driver's future would be part of every caller's future.
        match Box::pin(acquire(backend, config.clone())).await {
            Ok(guard) => return Ok(Some(Box::new(guard))),
            Err(error) if error.code() == ErrorCode::Aborted => return Ok(None),
            Err(error) if error.code() == ErrorCode::AcquisitionTimeout => {
                pause = FIRST_PAUSE;
                continue;
            }
            Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                log_failure(&error, pause);
            }
            Err(error) => return Err(error),
        }
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(None),
            () = sleep(jittered(pause)) => pause = (pause * 2).min(LONGEST_PAUSE),
        }
    }
}

/// One warning for each outage.
fn log_failure(error: &LockError, pause: Duration) {
    if pause == FIRST_PAUSE {
        tracing::warn!(
            error_code = error.code().as_str(),
            %error,
            "the campaign for the lead goes on although the store fails; further failures are logged at debug"
        );
    } else {
        tracing::debug!(error_code = error.code().as_str(), %error, "the store fails during a campaign");
    }
}
