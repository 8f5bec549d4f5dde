//! Waiting behind the head of a queue.

use super::attempt::Attempt;
use super::cancellable::fires;
use crate::backend::LockBackend;
use crate::client::queue::{Ticket, Turn};
use crate::rt::{self, Instant};
use crate::value::LockError;

/// Waits until the ticket is that of the head, and returns what the head does next.
///
/// # Errors
///
/// `Aborted` when the token fires. After the deadline, the error for a caller that timed out in the queue.
pub(super) async fn wait_to_be_head<B: LockBackend>(
    attempt: &Attempt<'_, B>,
    ticket: &mut Ticket,
    mut turn: Turn,
    deadline: Instant,
) -> Result<Turn, LockError> {
    let token = attempt.policy().cancellation.as_ref();
    while let Turn::Wait { notify, check_after } = turn {
        let pause = check_after.min(deadline.saturating_duration_since(Instant::now()));
        tokio::select! {
            biased;
            () = fires(token) => return Err(LockError::aborted()),
            () = notify.notified() => {}
            () = rt::sleep_awake(pause) => {}
        }
        let now = Instant::now();
        turn = ticket.turn(now);
        if deadline <= now {
            return Err(attempt.queue_timeout_error(ticket.is_contended(now)));
        }
    }
    Ok(turn)
}
