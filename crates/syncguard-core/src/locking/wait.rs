//! Waiting for a lock: in the queue of the process, and then as its head.

use std::future::Future;

use tokio_util::sync::CancellationToken;

use super::attempt::Attempt;
use super::head::Head;
use super::observed::Waiting;
use super::queue::{LOOK_AGAIN, Ticket, Turn};
use crate::rt::{self, Instant, sleep_until};
use crate::{LockBackend, LockError, LockGuard};

/// Waits until the lock is granted, or a limit is reached.
///
/// A waiter behind the head weighs little: what only a head needs is in a box that is made when the waiter
/// becomes one.
pub(super) async fn wait<'a, B: LockBackend>(
    attempt: &'a Attempt<'a, B>,
    waiting: &mut Waiting<'_>,
) -> Result<LockGuard<B>, LockError> {
    let now = Instant::now();
    let deadline = now + attempt.policy().acquisition.timeout;
    let token = attempt.policy().cancellation.as_ref();
    let (mut ticket, mut turn) = Ticket::enter(attempt.queues(), attempt.key(), now);
    let has_queued = matches!(turn, Turn::Wait { .. });
    while matches!(turn, Turn::Wait { .. }) {
        turn = wait_in_queue(&mut ticket, turn, deadline, token).await?;
        let now = Instant::now();
        if deadline <= now {
            return Err(attempt.gave_up_in_queue(ticket.is_contended(now)));
        }
    }
    Box::pin(Head::run(attempt, waiting, ticket, turn, has_queued, deadline)).await
}

/// Waits behind other waiters until something happens, and says what is to be done then.
///
/// # Errors
///
/// `Aborted` as soon as the token fires.
pub(super) async fn wait_in_queue(
    ticket: &mut Ticket,
    turn: Turn,
    deadline: Instant,
    token: Option<&CancellationToken>,
) -> Result<Turn, LockError> {
    let Turn::Wait { bell, is_behind_head } = turn else { return Ok(turn) };
    // Only the waiter behind the head looks after it: the others sleep until their own limit.
    let limit = deadline.saturating_duration_since(Instant::now());
    let pause = if is_behind_head { limit.min(LOOK_AGAIN) } else { limit };
    tokio::select! {
        biased;
        () = fires(token) => return Err(LockError::aborted()),
        () = bell.notified() => {}
        () = rt::sleep_awake(pause) => {}
    }
    Ok(ticket.turn(Instant::now()))
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

/// Sleeps until a point in time.
///
/// # Errors
///
/// `Aborted` as soon as the token fires.
pub(super) async fn sleep_unless_cancelled(
    token: Option<&CancellationToken>,
    until: Instant,
) -> Result<(), LockError> {
    unless_cancelled(token, sleep_until(until)).await
}

/// Waits for the token to fire. In a box, since most waiters have none.
async fn fires(token: Option<&CancellationToken>) {
    match token {
        Some(token) => Box::pin(token.cancelled()).await,
        None => std::future::pending().await,
    }
}
