//! The queue of a recipe whose waiters want any of several keys.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::fairness::Fairness;
use super::queues::WaitQueues;
use super::ticket::Ticket;
use super::wait_queue::Turn;
use crate::client::ClientState;
use crate::rt::{self, Instant};
use crate::value::Key;

/// For authors of recipes: this process's waiters for any of several locks, such as the slots of a semaphore. They
/// stand in one queue, as the waiters of [`acquire`](crate::acquire()) do, and follow its rule for sharing.
///
/// Clones are the same queue.
#[derive(Clone)]
pub struct RecipeQueue {
    queues: WaitQueues,
    key: Key,
}

/// A place in a [`RecipeQueue`]. Its drop gives it up, and wakes the next waiter.
pub struct QueuePlace(Ticket);

impl RecipeQueue {
    /// An empty queue, for a backend with this state. The key only names it.
    #[must_use]
    pub fn new(state: &ClientState, key: Key) -> Self {
        Self { queues: state.queues().separate(), key }
    }

    /// Whether callers wait. Waiters whose futures are not polled do not count after a second or two.
    #[must_use]
    pub fn has_waiters(&self) -> bool {
        self.queues.has_waiters(&self.key, Instant::now())
    }

    /// Takes the last place.
    #[must_use]
    pub fn enter(&self) -> QueuePlace {
        let (ticket, _) = Ticket::enter(&self.queues, &self.key, Instant::now());
        QueuePlace(ticket)
    }

    /// This process has got one of the locks.
    pub fn on_granted(&self) {
        self.queues.share(&self.key, Fairness::on_granted);
    }

    /// This process has released one of the locks.
    pub fn on_released(&self) {
        self.queues.share(&self.key, Fairness::on_released);
    }

    /// Another process had one of the locks that this process asked for.
    pub fn on_rival_seen(&self) {
        self.queues.share(&self.key, |fairness, now| fairness.on_rival_seen(now, false));
    }

    /// Whether this process has to leave the locks that it released to others for a while, before it takes one again: see
    /// [`QueuePlace::leave_free`].
    #[must_use]
    pub fn owes_a_pause(&self) -> bool {
        self.queues.share(&self.key, |fairness, now| fairness.pause(now)).is_some()
    }
}

impl QueuePlace {
    /// Waits for `time` at the most until this is the place of the head. Returns false if it is not.
    ///
    /// # Cancel safety
    ///
    /// Safe: the place stays.
    pub async fn become_head(&mut self, time: Duration) -> bool {
        self.0.become_head(rt::after(time)).await.is_some()
    }

    /// The head is about to ask the store. After ten seconds without a further step, the next waiter asks as well.
    pub fn on_attempt(&self) {
        self.0.on_attempt(Instant::now());
    }

    /// The head leaves the locks that this process released to others, if its turn is over: for 25 ms, and seldom for
    /// 110 ms, but not for more than half of `left`, the time that the waiter has.
    ///
    /// # Cancel safety
    ///
    /// Safe: a later head makes the pause.
    pub async fn leave_free(&self, left: Duration) {
        let Some(pause) = self.0.pause(Instant::now()) else { return };
        let ends = rt::after(pause.time.min(left / 2));
        self.0.start_waiting(ends, ends);
        rt::sleep_until(ends).await;
        if pause.time <= left / 2 {
            self.0.on_no_rival(pause);
        }
    }

    /// The head sleeps for `time`, or until `signal` resolves. Returns false if this is not the place of the head any
    /// more, because its future was not polled.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn sleep(&mut self, time: Duration, signal: impl Future<Output = ()>) -> bool {
        let until = rt::after(time);
        if let Some((notify, until)) = self.0.start_waiting(until, until) {
            tokio::select! {
                biased;
                () = signal => {}
                () = notify.notified() => {}
                () = rt::sleep_until(until) => {}
            }
        }
        !matches!(self.0.turn(Instant::now()), Turn::Wait { .. })
    }
}

impl fmt::Debug for RecipeQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecipeQueue").field("key", &self.key).finish_non_exhaustive()
    }
}

impl fmt::Debug for QueuePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueuePlace")
    }
}
