//! Waiting for the lead, for as long as it takes.

use std::time::Duration;

use syncguard_core::authoring::pause::jittered;
use syncguard_core::{
    AcquisitionOptions, CancellationToken, ErrorCode, LockBackend, LockConfig, LockError,
    LockGuard, acquire,
};
use tokio::time::sleep;

/// Before a store that has failed is asked again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A limit is needed, and nothing happens at its end but that the next wait begins.
const PATIENCE: Duration = Duration::from_secs(60 * 60);

/// Waits until the lock is granted; `None` at shutdown. The guard is boxed: who waits on it keeps it several
/// times over.
pub(super) async fn win<B: LockBackend>(
    backend: &B,
    config: &LockConfig,
    shutdown: &CancellationToken,
) -> Result<Option<Box<LockGuard<B>>>, LockError> {
    let config = config
        .clone()
        .with_acquisition(AcquisitionOptions::new().with_timeout(PATIENCE))
        .with_cancellation(shutdown.clone());
    let mut pause = FIRST_PAUSE;
    loop {
        // Boxed: a driver's future would be part of every caller's.
        match Box::pin(acquire(backend, config.clone())).await {
            Ok(guard) => return Ok(Some(Box::new(guard))),
            Err(error) if error.code() == ErrorCode::Aborted => return Ok(None),
            Err(error) if error.code() == ErrorCode::AcquisitionTimeout => {
                pause = FIRST_PAUSE;
                continue;
            }
            Err(error) if error.is_retryable() || error.is_outcome_unknown() => {
                say_failed(&error, pause);
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

/// Once for an outage.
fn say_failed(error: &LockError, pause: Duration) {
    if pause == FIRST_PAUSE {
        tracing::warn!(
            error_code = error.code().as_str(),
            %error,
            "the campaign for the lead goes on although the store fails; more of that is logged at debug"
        );
    } else {
        tracing::debug!(error_code = error.code().as_str(), %error, "the store fails during a campaign");
    }
}
