//! Waiting for the lead, without a limit.

use std::time::Duration;

use syncguard_core::{
    AcquisitionOptions, CancellationToken, ErrorCode, LockBackend, LockConfig, LockError,
    LockGuard, acquire,
};
use tokio::time::sleep;

use crate::outage::Outage;

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
    let mut outage = Outage::new("the campaign for the lead");
    loop {
        // Boxed: otherwise the driver's future would be part of every caller's future.
        let pause = match Box::pin(acquire(backend, config.clone())).await {
            Ok(guard) => return Ok(Some(Box::new(guard))),
            Err(error) if error.code() == ErrorCode::Aborted => return Ok(None),
            Err(error) if error.code() == ErrorCode::AcquisitionTimeout => {
                outage.end();
                continue;
            }
            Err(error) => outage.pause(error)?,
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(None),
            () = sleep(pause) => {}
        }
    }
}
