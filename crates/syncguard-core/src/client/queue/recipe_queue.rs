//! The queue of a recipe whose waiters want any of several keys.

use std::fmt;
use std::future::Future;
use std::time::Duration;

use super::fairness::Fairness;
use super::queues::WaitQueues;
use super::ticket::Ticket;
use super::wait_queue::CHECK_INTERVAL;
use crate::client::ClientState;
use crate::rt::{self, Instant};
use crate::value::Key;

/// For authors of recipes: this process's waiters for any of several locks, such as the slots of a semaphore. They
/// stand in one queue, as the waiters of [`acquire`](crate::acquire()) do, and follow its rule for sharing.
///
/// `W` is what the head watches the locks with: each head leaves it to the next.
pub struct RecipeQueue<W> {
    queues: WaitQueues<W>,
    key: Key,
}

/// For authors of recipes: whether this process has to leave the lock of this key to others for a moment, because its turn
/// is over. [`acquire`](crate::acquire()) does so, and [`try_acquire`](crate::try_acquire()) does not.
#[must_use]
pub fn owes_a_pause(state: &ClientState, key: &Key) -> bool {
    state.queues().share(key, |fairness, now| fairness.pause(now)).is_some()
}

/// A place in a [`RecipeQueue`]. Its drop gives it up, and wakes the next waiter.
pub struct QueuePlace<W>(Ticket<W>);

impl<W> RecipeQueue<W> {
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
    pub fn enter(&self) -> QueuePlace<W> {
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
    /// [`QueuePlace::may_ask`].
    #[must_use]
    pub fn owes_a_pause(&self) -> bool {
        self.queues.share(&self.key, |fairness, now| fairness.pause(now)).is_some()
    }
}

impl<W> QueuePlace<W> {
    /// Waits for `time` at the most until the caller may ask the store. Returns false if the time is over.
    ///
    /// The caller may ask if this is the place of the head. If the process's turn is over, the head first leaves the locks
    /// that the process has released to others: for 25 ms, and seldom for 110 ms, but not for more than half of the time. A
    /// head without a further step for [ten seconds](crate::authoring::ABANDONED_AFTER) loses its place.
    ///
    /// # Cancel safety
    ///
    /// Safe: the place stays, and a later head makes the pause.
    pub async fn may_ask(&mut self, time: Duration) -> bool {
        let ends = rt::after(time);
        if self.0.become_head(ends).await.is_none() {
            return false;
        }
        let now = Instant::now();
        let left = ends.saturating_duration_since(now);
        if let Some(pause) = self.0.pause(now) {
            let ends = rt::after(pause.time.min(left / 2));
            self.0.start_waiting(ends, ends);
            rt::sleep_until(ends).await;
            if pause.time <= left / 2 {
                self.0.on_no_rival(pause);
            }
            let _ = self.0.on_attempt(Instant::now());
        }
        !left.is_zero()
    }

    /// The watch of this head: the one that the head before it has left, or else a new one.
    pub fn watch(&mut self) -> &mut W
    where
        W: Default,
    {
        self.0.watch.get_or_insert_default()
    }

    /// The head begins to sleep: resolves after `time`, or earlier if there is something to do. With waiters behind it, the
    /// head sleeps for half a second at the most, so that they see whether it is polled.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub fn sleep(&self, time: Duration) -> impl Future<Output = ()> + use<W> {
        let waiting = self.0.start_waiting(rt::after(time), rt::after(CHECK_INTERVAL));
        async move {
            // Without a place, the head is passed over, and does not sleep.
            let Some((notify, until)) = waiting else { return };
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = rt::sleep_until(until) => {}
            }
        }
    }
}

impl<W> fmt::Debug for RecipeQueue<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RecipeQueue").field("key", &self.key).finish_non_exhaustive()
    }
}

impl<W> fmt::Debug for QueuePlace<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("QueuePlace")
    }
}
