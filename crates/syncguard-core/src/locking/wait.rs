//! Waiting in the queue of the process.

use super::attempt::Attempt;
use super::cancellable::fires;
use super::queue::{LOOK_AGAIN, Ticket, Turn};
use crate::rt::{self, Instant};
use crate::{LockBackend, LockError};

/// Waits behind other waiters until the ticket is that of the head, and says what the head does then.
///
/// # Errors
///
/// `Aborted` as soon as the token fires, and why no attempt was made once the deadline has passed.
pub(super) async fn wait_to_be_head<B: LockBackend>(
    attempt: &Attempt<'_, B>,
    ticket: &mut Ticket,
    mut turn: Turn,
    deadline: Instant,
) -> Result<Turn, LockError> {
    let token = attempt.policy().cancellation.as_ref();
    while let Turn::Wait { bell, is_behind_head } = turn {
        // Only the waiter behind the head looks after it: the others sleep until their own limit.
        let limit = deadline.saturating_duration_since(Instant::now());
        let pause = if is_behind_head { limit.min(LOOK_AGAIN) } else { limit };
        tokio::select! {
            biased;
            () = fires(token) => return Err(LockError::aborted()),
            () = bell.notified() => {}
            () = rt::sleep_awake(pause) => {}
        }
        let now = Instant::now();
        turn = ticket.turn(now);
        if deadline <= now {
            return Err(attempt.gave_up_in_queue(ticket.is_contended(now)));
        }
    }
    Ok(turn)
}
