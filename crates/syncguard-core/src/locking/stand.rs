//! Standing in line, and waiting that a token ends.

use std::future::Future;

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::lines::{Place, Turn};
use crate::LockError;
use crate::rt::{Instant, sleep_until};

/// How one came to be the first of its line.
pub(super) struct Came {
    /// What it does first.
    pub(super) turn: Turn,
    pub(super) at: Instant,
    /// Whether it was woken by its bell; `None` if it did not have to wait for that.
    pub(super) rang: Option<bool>,
}

/// Waits for the bell behind others, until it is time to look again. Whether it rang.
pub(super) async fn stand_in_line(
    bell: &Notify,
    deadline: Instant,
    token: Option<&CancellationToken>,
) -> Result<bool, LockError> {
    let look = deadline.min(Instant::now() + Place::LOOK_AGAIN);
    tokio::select! {
        biased;
        () = fires(token) => Err(LockError::aborted()),
        () = bell.notified() => Ok(true),
        () = sleep_until(look) => Ok(false),
    }
}

/// # Errors
///
/// `Aborted` as soon as the token fires.
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

/// Waits for the token to fire. Boxed: most have none.
async fn fires(token: Option<&CancellationToken>) {
    match token {
        Some(token) => Box::pin(token.cancelled()).await,
        None => std::future::pending().await,
    }
}
