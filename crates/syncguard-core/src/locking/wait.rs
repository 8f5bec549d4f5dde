//! Waiting behind the head of a queue.

use super::attempt::Attempt;
use super::cancellable::fires;
use crate::backend::LockBackend;
use crate::client::queue::{Ticket, Turn};
use crate::rt::Instant;
use crate::value::LockError;

/// Waits until the ticket is that of the head, and returns what the head does next.
///
/// # Errors
///
/// `Aborted` when the token fires. After the deadline, the error for a caller that timed out in the queue.
pub(super) async fn wait_to_be_head<B: LockBackend>(
    attempt: &Attempt<'_, B>,
    ticket: &mut Ticket,
    deadline: Instant,
) -> Result<Turn, LockError> {
    let token = attempt.policy().cancellation.as_ref();
    let head = tokio::select! {
        biased;
        () = fires(token) => return Err(LockError::aborted()),
        turn = ticket.become_head(deadline) => turn,
    };
    head.ok_or_else(|| attempt.queue_timeout_error(ticket.is_contended(Instant::now())))
}
