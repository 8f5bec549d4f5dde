//! Health checks of stores that report on themselves.

use std::future::Future;

use super::lock_backend::{LockBackend, basic_health};
use crate::contract::health::Health;
use crate::contract::signal_status::SignalStatus;
use crate::value::LockError;

/// For authors of backends: [`basic_health`], and then what the store reports on itself, unless it is away. `describe` adds the
/// findings.
///
/// # Cancel safety
///
/// Safe if the report is.
pub async fn reported_health<B: LockBackend, R: Send>(
    backend: &B,
    signals: impl Fn() -> SignalStatus + Send + Sync,
    report: impl Future<Output = Result<R, LockError>> + Send,
    describe: impl FnOnce(&mut Health, R) + Send,
) -> Health {
    let mut health = basic_health(backend, |_| signals()).await;
    if health.reachability.as_ref().is_err_and(LockError::is_retryable) {
        return health;
    }
    match report.await {
        Ok(report) => {
            if health.signals == SignalStatus::Unused {
                // A connection for signals that fails, or finds a pooler, ends a moment after its watch.
                health.signals = signals();
            }
            describe(&mut health, report);
        }
        Err(error) => health.reachability = Err(error),
    }
    health
}
