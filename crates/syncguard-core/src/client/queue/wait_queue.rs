//! The queue of one key.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::fairness::Fairness;
use crate::rt::Instant;
use crate::util::{ABANDONED_AFTER, answer_patience};

/// Identifies a waiter or a holder. Numbers grow, so the waiters of a queue are sorted by number.
pub(super) type Number = u64;

/// How often the waiter behind the head checks that the future of the head is still polled. The waiter behind
/// that one checks half as often, and so on. A head with waiters behind it sleeps no longer than this.
pub(crate) const CHECK_INTERVAL: Duration = Duration::from_millis(500);

/// The waiters for a key in this process, and the guard that has the key. If there is a waiter, there is a
/// head. `W` is the watch that each head leaves for the next.
pub(super) struct WaitQueue<W> {
    head: Option<HeadState>,
    waiting: VecDeque<(Number, Arc<Notify>)>,
    /// The guard of this process that has the lock, and when the store frees the lock without an extend.
    holder: Option<(Number, Instant)>,
    pub(super) fairness: Fairness,
    /// The watch that the last head has left.
    pub(super) watch: Option<W>,
    last_number: Number,
    /// The longest time that the store took to answer a head.
    longest_answer: Duration,
    /// Whether a head has left without an answer, and the store has not answered since.
    is_unanswered: bool,
}

/// The waiter that contends in the store.
struct HeadState {
    number: Number,
    /// Wakes the head. `None` until it first waits or is woken.
    notify: Option<Arc<Notify>>,
    /// When the present request was sent; `None` if no answer is due.
    asked: Option<Instant>,
    /// When the head wakes up by itself, if it waits.
    wakes_at: Option<Instant>,
    /// When the head must have taken its next step, two checks after it wakes up. A head that misses this time is not
    /// polled any more, so the next waiter becomes the head.
    due: Instant,
}

/// The next step of a waiter.
#[derive(Debug)]
pub(crate) enum Turn {
    /// The waiter is not the head, and waits to be woken. After this time it checks whether the head is still
    /// polled.
    Wait { notify: Arc<Notify>, check_after: Duration },
    /// The waiter is the head and asks the store.
    Ask,
    /// The waiter is the head, and a guard of this process has the lock until this time, or longer if the
    /// guard extends it.
    Held(Instant),
}

impl<W> WaitQueue<W> {
    pub(super) fn new(is_single_process: bool) -> Self {
        Self {
            head: None,
            waiting: VecDeque::new(),
            holder: None,
            fairness: Fairness::new(is_single_process),
            watch: None,
            last_number: 0,
            longest_answer: Duration::ZERO,
            is_unanswered: false,
        }
    }

    pub(super) fn next_number(&mut self) -> Number {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.is_none() && self.holder.is_none()
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.head.is_some()
    }

    /// Whether waiters stand behind the head.
    pub(super) fn has_queued(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Adds a waiter, as the head or behind the others.
    pub(super) fn join(&mut self, number: Number, now: Instant) -> Turn {
        self.skip_overdue(now);
        if self.is_empty() {
            self.fairness.on_arrival(now);
        }
        if self.head.is_none() {
            self.head =
                Some(HeadState { number, notify: None, asked: None, wakes_at: None, due: now });
            return self.turn_of_head(now);
        }
        if !self.has_queued() {
            self.shorten_sleep(now);
        }
        let notify = Arc::new(Notify::new());
        self.waiting.push_back((number, Arc::clone(&notify)));
        Self::wait(notify, self.waiting.len() - 1)
    }

    /// The turn of the waiter at this position behind the head. The times double from waiter to waiter, so that a
    /// long queue costs no more wake-ups than a short one.
    fn wait(notify: Arc<Notify>, position: usize) -> Turn {
        let times = u32::try_from(position).ok().and_then(|position| 1_u32.checked_shl(position));
        Turn::Wait { notify, check_after: CHECK_INTERVAL * times.unwrap_or(u32::MAX) }
    }

    /// Wakes a head that fell asleep for long while it was alone.
    fn shorten_sleep(&mut self, now: Instant) {
        let Some(head) = &mut self.head else { return };
        if head.wakes_at.is_some_and(|at| at > now + CHECK_INTERVAL) {
            head.due = now + CHECK_INTERVAL * 2;
            self.wake_head();
        }
    }

    /// The next step of this waiter; `None` if it was passed over.
    pub(super) fn turn(&mut self, number: Number, now: Instant) -> Option<Turn> {
        // Even a late head keeps its place while no other waiter stands behind it.
        if self.has_queued() {
            self.skip_overdue(now);
        }
        if self.is_head(number) {
            return Some(self.turn_of_head(now));
        }
        let position = self.position(number).ok()?;
        let (_, notify) = self.waiting.get(position)?;
        Some(Self::wait(Arc::clone(notify), position))
    }

    fn turn_of_head(&mut self, now: Instant) -> Turn {
        let Some(head) = &mut self.head else { return Turn::Ask };
        head.wakes_at = None;
        if let Some((_, until)) = self.holder.filter(|(_, until)| *until > now) {
            head.due = until + CHECK_INTERVAL * 2;
            return Turn::Held(until);
        }
        head.asked = Some(now);
        head.due = now + ABANDONED_AFTER;
        Turn::Ask
    }

    /// The head is about to ask the store.
    pub(super) fn on_attempt(&mut self, number: Number, now: Instant) {
        if let Some(head) = self.head_if(number) {
            head.asked = Some(now);
            head.wakes_at = None;
            head.due = now + ABANDONED_AFTER;
        }
    }

    /// The store has answered that a rival has the lock.
    pub(super) fn on_contended(&mut self, number: Number, now: Instant, is_polled: bool) {
        self.is_unanswered = false;
        if self.holder.is_none() {
            self.fairness.on_rival_seen(now, is_polled);
        }
        let asked = self.head_if(number).and_then(|head| head.asked.take());
        if let Some(asked) = asked {
            let took = now.saturating_duration_since(asked);
            self.longest_answer = self.longest_answer.max(took);
        }
    }

    /// The head is about to wait, until this time or until it is woken. With waiters behind it, it waits until
    /// `until_with_queued` at the latest. Returns when it wakes up by itself.
    pub(super) fn start_waiting(
        &mut self,
        number: Number,
        until: Instant,
        until_with_queued: Instant,
    ) -> Option<(Arc<Notify>, Instant)> {
        let until = if self.has_queued() { until.min(until_with_queued) } else { until };
        let head = self.head_if(number)?;
        head.asked = None;
        head.wakes_at = Some(until);
        head.due = until + CHECK_INTERVAL * 2;
        Some((Arc::clone(head.notify.get_or_insert_default()), until))
    }

    /// This waiter has got the lock, so the next waiter is the head. It is not woken, because it has nothing to
    /// do before the release.
    pub(super) fn on_granted(&mut self, number: Number, until: Instant, now: Instant) {
        self.is_unanswered = false;
        self.holder = Some((number, until));
        self.fairness.on_granted(now);
        if self.is_head(number) {
            self.promote(now + CHECK_INTERVAL * 3);
        } else {
            self.remove(number);
        }
    }

    /// The lock of this guard is released, or may be: wakes the head. Returns whether there is a head.
    pub(super) fn on_released(&mut self, number: Number, now: Instant) -> bool {
        if self.holder.is_some_and(|(holder, _)| holder == number) {
            self.holder = None;
            self.fairness.on_released(now);
        }
        self.wake_head();
        self.has_waiters()
    }

    /// Removes a waiter. If it was the head, the next waiter becomes the head and is woken.
    pub(super) fn leave(&mut self, number: Number, now: Instant) {
        if !self.is_head(number) {
            return self.remove(number);
        }
        self.is_unanswered |= self.is_answer_overdue(now);
        self.promote(now + CHECK_INTERVAL * 2);
        self.wake_head();
    }

    /// Removes the head if its future is not polled. The next waiter, if there is one, becomes the head.
    pub(super) fn skip_overdue(&mut self, now: Instant) {
        let is_overdue = self.head.as_ref().is_some_and(|head| head.due <= now);
        if is_overdue {
            self.promote(now + CHECK_INTERVAL * 2);
            self.wake_head();
        }
    }

    /// Whether waiters wait because the lock is held, and not because the store does not answer.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.holder.is_some() || !(self.is_unanswered || self.is_answer_overdue(now))
    }

    /// Whether the store should have answered the head by now.
    fn is_answer_overdue(&self, now: Instant) -> bool {
        let patience = answer_patience(self.longest_answer);
        let asked = self.head.as_ref().and_then(|head| head.asked);
        asked.is_some_and(|asked| now.saturating_duration_since(asked) > patience)
    }

    /// Leaves a watch for the next head. Returns the watches that are not needed: the caller drops them after it
    /// has unlocked the queue.
    pub(super) fn leave_watch(&mut self, watch: Option<W>) -> [Option<W>; 2] {
        match (&self.head, watch) {
            (None, watch) => [watch, self.watch.take()],
            (Some(_), None) => [None, None],
            (Some(_), Some(watch)) => [self.watch.replace(watch), None],
        }
    }

    pub(super) fn is_head(&self, number: Number) -> bool {
        self.head.as_ref().is_some_and(|head| head.number == number)
    }

    /// Whether this waiter stands in the queue, as the head or behind it.
    pub(super) fn contains(&self, number: Number) -> bool {
        self.is_head(number) || self.position(number).is_ok()
    }

    fn wake_head(&mut self) {
        if let Some(head) = &mut self.head {
            // The wake-up is kept until the head waits.
            head.notify.get_or_insert_default().notify_one();
        }
    }

    fn promote(&mut self, due: Instant) {
        let next = self.waiting.pop_front();
        self.head = next.map(|(number, notify)| HeadState {
            number,
            notify: Some(notify),
            asked: None,
            wakes_at: None,
            due,
        });
        self.notify_second();
    }

    fn remove(&mut self, number: Number) {
        if let Ok(position) = self.position(number) {
            self.waiting.remove(position);
            if position == 0 {
                self.notify_second();
            }
        }
    }

    /// Wakes the waiter right behind the head, so that it starts to check on the head.
    fn notify_second(&self) {
        if let Some((_, notify)) = self.waiting.front() {
            notify.notify_one();
        }
    }

    fn head_if(&mut self, number: Number) -> Option<&mut HeadState> {
        self.head.as_mut().filter(|head| head.number == number)
    }

    fn position(&self, number: Number) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&number, |(number, _)| *number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A head that left without an answer says that the store is silent, until the next head gets one.
    #[test]
    fn an_answer_ends_the_silence_of_the_store() {
        let (start, mut queue) = (Instant::now(), WaitQueue::<()>::new(false));
        let [first, second] = [queue.next_number(), queue.next_number()];
        queue.join(first, start);
        queue.join(second, start);
        queue.on_attempt(first, start);
        assert!(queue.is_contended(start), "the answer is not due yet");
        let overdue = start + ABANDONED_AFTER;
        queue.leave(first, overdue);
        assert!(!queue.is_contended(overdue));
        queue.on_attempt(second, overdue);
        queue.on_contended(second, overdue, false);
        assert!(queue.is_contended(overdue));
    }
}
