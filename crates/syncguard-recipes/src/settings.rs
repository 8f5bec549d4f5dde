//! The settings of a recipe's locks that a caller gives: what a recipe cannot obey is an error of its first call.

use std::pin::Pin;

use syncguard_core::{AcquisitionOptions, LockConfig, LockError};

/// For a recipe that waits for several locks at once: they share the tries.
pub(crate) fn counts_no_retries(config: &LockConfig, recipe: &str) -> Result<(), LockError> {
    match config.acquisition().max_retries {
        0 | u32::MAX => Ok(()),
        retries => Err(LockError::invalid_argument(format!(
            "{recipe} does not count retries, and {retries} are set; no number is allowed, or 0 so that nobody waits"
        ))),
    }
}

/// For a recipe that goes on until its shutdown.
pub(crate) fn goes_on(config: &LockConfig, recipe: &str) -> Result<(), LockError> {
    let what = if config.acquisition() != AcquisitionOptions::new() {
        "waits without a limit: leave out how long and how often to try"
    } else if !config.ride_out().is_zero() {
        "rides out each outage: leave out with_ride_out"
    } else if config.cancellation().is_some() {
        "ends by with_shutdown: leave out with_cancellation"
    } else {
        return Ok(());
    };
    Err(LockError::invalid_argument(format!("{recipe} {what}")))
}

/// The result of a call, or `Aborted` when the configuration's token fires. The call is pinned by the caller, in whose future
/// it would otherwise stand twice.
pub(crate) async fn unless_cancelled<T>(
    config: &LockConfig,
    call: Pin<&mut impl Future<Output = Result<T, LockError>>>,
) -> Result<T, LockError> {
    let Some(token) = config.cancellation() else { return call.await };
    tokio::select! {
        biased;
        () = token.cancelled() => Err(LockError::aborted()),
        result = call => result,
    }
}
