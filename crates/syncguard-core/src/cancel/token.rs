//! The caller's cancellation token.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use super::runtime::check_runtime;
use crate::value::LockError;

/// Answers `Aborted` if the token has fired: for a backend's checks between two steps.
///
/// # Errors
///
/// `Aborted` if there is a token and it has fired.
pub fn check(cancellation: Option<&CancellationToken>) -> Result<(), LockError> {
    match cancellation {
        Some(token) if token.is_cancelled() => Err(LockError::aborted()),
        _ => Ok(()),
    }
}

/// Runs an operation until the token fires; `None` if the token came first. The operation is then dropped.
///
/// # Errors
///
/// `Aborted` if the token has fired before, and `InvalidArgument` outside a tokio runtime with timers.
pub(super) async fn interruptible<F: Future>(
    cancellation: Option<&CancellationToken>,
    operation: F,
) -> Result<Option<F::Output>, LockError> {
    check(cancellation)?;
    check_runtime()?;
    Ok(match cancellation {
        None => Some(operation.await),
        Some(token) => tokio::select! {
            biased;
            output = operation => Some(output),
            () = token.cancelled() => None,
        },
    })
}
