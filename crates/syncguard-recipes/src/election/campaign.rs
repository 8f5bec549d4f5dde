//! Waiting for the lead, for as long as a wait can be.

use syncguard_core::{
    AcquisitionOptions, CancellationToken, ErrorCode, LockBackend, LockConfig, LockError,
    LockGuard, Ttl, acquire,
};
use tokio::time::sleep;

use crate::outage::Outage;

/// Waits until the lock is granted; `None` at shutdown. The guard is boxed, because the future that holds it would
/// otherwise contain it several times.
pub(super) async fn win<B: LockBackend>(
    backend: &B,
    config: &LockConfig,
    shutdown: &CancellationToken,
) -> Result<Option<Box<LockGuard<B>>>, LockError> {
    let config = config
        .clone()
        .with_acquisition(AcquisitionOptions::new().with_timeout(Ttl::MAX.as_duration()))
        .with_cancellation(shutdown.clone());
    let mut outage = Outage::new("the campaign for the lead");
    loop {
        // Boxed: otherwise the driver's future would be part of every caller's future.
        let pause = match Box::pin(acquire(backend, config.clone())).await {
            Ok(guard) => return Ok(Some(Box::new(guard))),
            Err(error) if error.code() == ErrorCode::Aborted => return Ok(None),
            Err(error) => outage.pause(error)?,
        };
        tokio::select! {
            biased;
            () = shutdown.cancelled() => return Ok(None),
            () = sleep(pause) => {}
        }
    }
}
