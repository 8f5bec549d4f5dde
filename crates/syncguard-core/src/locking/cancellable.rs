//! Waits that end when a token fires.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use crate::rt::{Instant, sleep_until};
use crate::value::LockError;

/// Runs a future until the token fires.
///
/// # Errors
///
/// `Aborted` when the token fires.
pub(super) async fn unless_cancelled<F: Future>(
    token: Option<&CancellationToken>,
    future: F,
) -> Result<F::Output, LockError> {
    match token {
        None => Ok(future.await),
        Some(token) => tokio::select! {
            biased;
            () = token.cancelled() => Err(LockError::aborted()),
            output = future => Ok(output),
        },
    }
}

/// Sleeps until a point in time.
///
/// # Errors
///
/// `Aborted` when the token fires.
pub(super) async fn sleep_unless_cancelled(
    token: Option<&CancellationToken>,
    until: Instant,
) -> Result<(), LockError> {
    unless_cancelled(token, sleep_until(until)).await
}

/// Waits for the token to fire. Boxed, because most waiters have no token.
pub(super) async fn fires(token: Option<&CancellationToken>) {
    match token {
        Some(token) => Box::pin(token.cancelled()).await,
        None => std::future::pending().await,
    }
}
