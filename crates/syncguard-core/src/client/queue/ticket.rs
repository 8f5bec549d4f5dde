//! A place in a queue.

use std::sync::Arc;

use tokio::sync::Notify;

use super::fairness::Pause;
use super::local_holder::LocalHolder;
use super::queues::{KeyQueue, WaitQueues};
use super::wait_queue::{Number, Turn, WaitQueue};
use crate::contract::key_watch::KeyWatch;
use crate::rt::{self, Instant};
use crate::value::Key;

/// A place in the queue of a key. Its drop gives up the place and passes on the turn.
pub(crate) struct Ticket<W = KeyWatch> {
    queues: WaitQueues<W>,
    key: Key,
    queue: Arc<KeyQueue<W>>,
    number: Number,
    /// The watch of the head, which may be over.
    pub(crate) watch: Option<W>,
    has_left: bool,
}

impl<W> Ticket<W> {
    /// Enters the queue. Also returns the turn of a waiter that is the head; `None` behind others.
    pub(crate) fn enter(queues: &WaitQueues<W>, key: &Key, now: Instant) -> (Self, Option<Turn>) {
        let (queue, (number, turn)) = queues.enter(key, now, |queue| Self::join(queue, now));
        let (queues, key) = (queues.clone(), key.clone());
        let turn = Some(turn).filter(|turn| !matches!(turn, Turn::Wait { .. }));
        (Self { queues, key, queue, number, watch: None, has_left: false }, turn)
    }

    fn join(queue: &mut WaitQueue<W>, now: Instant) -> (Number, Turn) {
        let number = queue.next_number();
        (number, queue.join(number, now))
    }

    fn queue<T>(&self, work: impl FnOnce(&mut WaitQueue<W>) -> T) -> T {
        self.queues.with(&self.queue, work)
    }

    /// The next step of this waiter.
    pub(crate) fn turn(&mut self, now: Instant) -> Turn {
        let number = self.number;
        let found = self.queue(|queue| {
            let turn = queue.turn(number, now)?;
            let watch = if queue.is_head(number) { queue.watch.take() } else { None };
            Some((turn, watch))
        });
        let Some((turn, watch)) = found else {
            // Passed over because this future was not polled: back to the end of the queue.
            let (queue, (number, turn)) =
                self.queues.enter(&self.key, now, |queue| Self::join(queue, now));
            (self.queue, self.number) = (queue, number);
            return turn;
        };
        self.watch = watch.or(self.watch.take());
        turn
    }

    /// Waits until this is the place of the head, and returns what the head does next; `None` after the deadline.
    pub(crate) async fn become_head(&mut self, deadline: Instant) -> Option<Turn> {
        loop {
            let now = Instant::now();
            let (notify, check_after) = match self.turn(now) {
                Turn::Wait { notify, check_after } => (notify, check_after),
                turn => return Some(turn),
            };
            tokio::select! {
                biased;
                () = notify.notified() => {}
                () = rt::sleep_awake(check_after.min(deadline.saturating_duration_since(now))) => {}
            }
            if deadline <= Instant::now() {
                return None;
            }
        }
    }

    /// The head is about to ask the store. Returns whether a rival was seen with the key since this process had it.
    pub(crate) fn on_attempt(&self, now: Instant) -> bool {
        self.queue(|queue| {
            queue.on_attempt(self.number, now);
            queue.fairness.has_lost()
        })
    }

    /// The store has answered that a rival has the lock.
    pub(crate) fn on_contended(&self, now: Instant, is_polled: bool) {
        self.queue(|queue| queue.on_contended(self.number, now, is_polled));
    }

    /// The head is about to wait, until this time or until it is woken. With waiters behind it, it waits until
    /// `until_with_queued` at the latest. Returns the handle that wakes it, and when it wakes up by itself; `None` if
    /// this ticket is no longer that of the head.
    pub(crate) fn start_waiting(
        &self,
        until: Instant,
        until_with_queued: Instant,
    ) -> Option<(Arc<Notify>, Instant)> {
        self.queue(|queue| queue.start_waiting(self.number, until, until_with_queued))
    }

    /// The pause that this process makes before it asks for a key that was just released.
    pub(crate) fn pause(&self, now: Instant) -> Option<Pause> {
        self.queue(|queue| queue.fairness.pause(now))
    }

    /// No rival was seen to take the key during a pause.
    pub(crate) fn on_no_rival(&self, pause: Pause) {
        self.queue(|queue| queue.fairness.on_no_rival(pause));
    }

    /// Whether a rival was seen with the key since this process had it.
    pub(crate) fn has_lost(&self) -> bool {
        self.queue(|queue| queue.fairness.has_lost())
    }

    /// Whether waiters wait because the lock is held, and not because the store does not answer.
    pub(crate) fn is_contended(&self, now: Instant) -> bool {
        self.queue(|queue| queue.is_contended(now))
    }
}

impl Ticket {
    /// The lock is granted, and gives up this place. The store frees the lock at `until`, unless the guard
    /// extends it.
    pub(crate) fn on_granted(&mut self, until: Instant, now: Instant) -> LocalHolder {
        self.has_left = true;
        let (watch, number) = (self.watch.take(), self.number);
        let unwanted = self.queue(|queue| {
            if !queue.contains(number) {
                return Err(watch);
            }
            queue.on_granted(number, until, now);
            Ok(queue.leave_watch(watch))
        });
        if unwanted.is_err() {
            // This waiter was passed over, and its queue may have been forgotten since.
            return LocalHolder::unqueued(&self.queues, &self.key, until, now);
        }
        LocalHolder::new(self.queues.clone(), Arc::clone(&self.queue), number)
    }
}

impl<W> Drop for Ticket<W> {
    fn drop(&mut self) {
        if self.has_left {
            return;
        }
        let watch = self.watch.take();
        let unwanted = self.queue(|queue| {
            queue.leave(self.number, Instant::now());
            queue.leave_watch(watch)
        });
        drop(unwanted);
    }
}
