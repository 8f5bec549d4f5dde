//! How the head lets rivals go first.

use std::time::Duration;

use super::{Head, HeldBy, Woken};
use crate::backend::LockBackend;
use crate::client::queue::Pause;
use crate::contract::request::IsLockedRequest;
use crate::locking::cancellable::{sleep_unless_cancelled, unless_cancelled};
use crate::rt::{self, Instant};
use crate::util::pause::Jitter;
use crate::value::LockError;

/// After a signal, which rivals get as well, a head that lost the last race waits for a random part of this. Then the
/// heads of four processes send some 4 commands for each hand-over; without it, they send more than 5. A pause between
/// two looks at the key begins with it, too.
const HOLD_BACK: Duration = Duration::from_millis(3);

impl<B: LockBackend> Head<'_, B> {
    /// The pause that a key that was just released is left free for, if it is time for that.
    pub(super) fn pause(&self, now: Instant) -> Option<Pause> {
        let is_released = matches!(self.woken, Woken::Queue | Woken::Signal);
        if is_released { self.ticket.pause(now) } else { None }
    }

    /// Leaves the key free for rivals from now on. Returns whether a rival has taken it.
    pub(super) async fn leave_free(
        &mut self,
        pause: Pause,
        began: Instant,
    ) -> Result<bool, LockError> {
        // The last part of the limit is left for the attempt. A later head makes the whole pause.
        let left = self.deadline.saturating_duration_since(began) / 2;
        let ends = began + pause.time.min(left);
        self.ticket.start_waiting(ends, ends);
        let mut until_look = HOLD_BACK;
        loop {
            let look = if pause.ends_early { rt::after(until_look) } else { ends };
            sleep_unless_cancelled(self.token(), ends.min(look)).await?;
            if ends <= look {
                break;
            }
            if self.is_locked(ends).await? {
                self.ticket.on_contended(Instant::now(), false);
                (self.free_at, self.holder) = (None, HeldBy::Rival { polls: None });
                return Ok(true);
            }
            until_look *= 2;
        }
        if pause.time <= left {
            self.ticket.on_no_rival(pause);
        }
        Ok(false)
    }

    /// Whether the store answers before `until` that the key is locked.
    async fn is_locked(&self, until: Instant) -> Result<bool, LockError> {
        let request = IsLockedRequest { key: self.call.key.clone(), cancellation: None };
        let look = rt::until(until, self.call.backend.is_locked(request));
        // The next attempt reports the error of a failing store.
        Ok(unless_cancelled(self.token(), look)
            .await?
            .is_some_and(|answer| answer.unwrap_or(false)))
    }

    /// Waits for a moment after a signal, which rivals get as well. A head with little time left goes first.
    pub(super) async fn hold_back(&self) -> Result<(), LockError> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left < self.call.policy.acquisition.timeout / 4 {
            return Ok(());
        }
        sleep_unless_cancelled(self.token(), rt::after(Jitter::Full.of(HOLD_BACK))).await
    }
}
