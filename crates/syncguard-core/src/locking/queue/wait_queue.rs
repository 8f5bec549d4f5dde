//! The queue of one key.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::fairness::Fairness;
#[cfg(test)]
use super::flaws::{self, Flaw};
use crate::contract::KeyWatch;
use crate::rt::Instant;

/// Of a waiter or a holder. Numbers grow, so the waiters of a queue are sorted by theirs.
pub(super) type Number = u64;

/// How often the waiter behind the head looks whether the head is still driven.
pub(in crate::locking) const LOOK_AGAIN: Duration = Duration::from_millis(500);

/// The waiters for a key in this process, and the guard that has it. While anybody waits, there is a head.
pub(super) struct WaitQueue {
    head: Option<Head>,
    waiting: VecDeque<(Number, Arc<Notify>)>,
    /// The guard of this process that has the lock, and when the store lets go of it unless it is extended.
    holder: Option<(Number, Instant)>,
    pub(super) fairness: Fairness,
    /// Whether the last head that asked for signals has got none.
    pub(super) hears_nothing: bool,
    /// The watch that the last head has left to the next one.
    watch: Option<KeyWatch>,
    last_number: Number,
    /// The longest that an answer of the store took while somebody waited.
    longest_answer: Duration,
    /// Whether a head has left without an answer of the store, and none has come since.
    is_silent: bool,
}

/// The waiter that contends in the store.
struct Head {
    number: Number,
    bell: Bell,
    /// Since when the store is being asked.
    asked: Option<Instant>,
    /// When it must have done something. If it has not, nobody drives it, and the next waiter becomes the head.
    due: Instant,
}

/// The bell that wakes a head. A ring is kept until the head waits for it.
enum Bell {
    /// The head never had to wait.
    None,
    /// The head never had to wait, and would have been woken.
    Rung,
    Some(Arc<Notify>),
}

impl Bell {
    fn ring(&mut self) {
        match self {
            Self::Some(bell) => bell.notify_one(),
            Self::None | Self::Rung => *self = Self::Rung,
        }
    }

    fn get(&mut self) -> Arc<Notify> {
        if let Self::Some(bell) = self {
            return Arc::clone(bell);
        }
        let bell = Arc::new(Notify::new());
        if matches!(self, Self::Rung) {
            bell.notify_one();
        }
        *self = Self::Some(Arc::clone(&bell));
        bell
    }
}

/// The next step of a waiter.
#[derive(Debug)]
pub(in crate::locking) enum Turn {
    /// Other waiters are before it: it waits for its bell. The waiter behind the head also looks again after
    /// [`LOOK_AGAIN`], since nobody else would notice a head that is not driven.
    Wait { bell: Arc<Notify>, is_behind_head: bool },
    /// It is the head, and asks the store.
    Ask,
    /// It is the head, and a guard of this process has the lock, until then at the most unless it is extended.
    Held(Instant),
}

impl WaitQueue {
    /// How late the head may be with what it does next.
    const GRACE: Duration = Duration::from_secs(1);
    /// How long the head may wait for the store before the next waiter asks as well.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// An answer of the store may take this long before the queue says that there is none.
    const USUAL_ANSWER: Duration = Duration::from_millis(100);

    pub(super) fn new(is_single_process: bool) -> Self {
        Self {
            head: None,
            waiting: VecDeque::new(),
            holder: None,
            fairness: Fairness::new(is_single_process),
            hears_nothing: false,
            watch: None,
            last_number: 0,
            longest_answer: Duration::ZERO,
            is_silent: false,
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

    /// One more waits: as the head, or with a bell.
    pub(super) fn join(&mut self, number: Number, now: Instant) -> Turn {
        self.skip_overdue(now);
        #[cfg(test)]
        if flaws::has(Flaw::TwoContenders) {
            return Turn::Ask;
        }
        if self.is_empty() {
            self.fairness.arrived(now);
        }
        if self.head.is_none() {
            self.head = Some(Head { number, bell: Bell::None, asked: None, due: now });
            return self.turn_of_head(now);
        }
        let bell = Arc::new(Notify::new());
        self.waiting.push_back((number, Arc::clone(&bell)));
        Turn::Wait { bell, is_behind_head: self.waiting.len() == 1 }
    }

    /// The next step of this waiter; `None` if it was passed over.
    pub(super) fn turn(&mut self, number: Number, now: Instant) -> Option<Turn> {
        // The head, however late, keeps its place while no other waiter wants it.
        if self.has_queued() {
            self.skip_overdue(now);
        }
        if self.is_head(number) {
            return Some(self.turn_of_head(now));
        }
        let position = self.position(number).ok()?;
        let (_, bell) = self.waiting.get(position)?;
        Some(Turn::Wait { bell: Arc::clone(bell), is_behind_head: position == 0 })
    }

    fn turn_of_head(&mut self, now: Instant) -> Turn {
        let Some(head) = &mut self.head else { return Turn::Ask };
        if let Some((_, until)) = self.holder.filter(|(_, until)| *until > now) {
            head.due = until + Self::GRACE;
            return Turn::Held(until);
        }
        head.asked = Some(now);
        head.due = now + Self::PATIENCE;
        Turn::Ask
    }

    /// The head asks the store, whoever has the lock.
    pub(super) fn asks(&mut self, number: Number, now: Instant) {
        if let Some(head) = self.head_if(number) {
            head.asked = Some(now);
            head.due = now + Self::PATIENCE;
        }
    }

    /// The store has answered that somebody else has the lock.
    pub(super) fn refused(&mut self, number: Number, now: Instant, holder_polls: bool) {
        self.lost(now, holder_polls);
        let asked = self.head_if(number).and_then(|head| head.asked.take());
        if let Some(asked) = asked {
            let took = now.saturating_duration_since(asked);
            self.longest_answer = self.longest_answer.max(took);
        }
    }

    /// A rival has the lock, as an answer or a look has shown.
    pub(super) fn lost(&mut self, now: Instant, holder_polls: bool) {
        self.is_silent = false;
        if self.holder.is_none() {
            self.fairness.lost(now, holder_polls);
        }
    }

    /// The head waits, until then at the most, or until its bell rings.
    pub(super) fn waits(&mut self, number: Number, until: Instant) -> Option<Arc<Notify>> {
        let head = self.head_if(number)?;
        head.asked = None;
        head.due = until + Self::GRACE;
        #[cfg(test)]
        if flaws::has(Flaw::WakeUpLost) {
            head.bell = Bell::None;
        }
        Some(head.bell.get())
    }

    /// This waiter has got the lock: the next one is the head. It is not woken, since there is nothing to do for it
    /// before the lock is given back.
    pub(super) fn granted(&mut self, number: Number, until: Instant, now: Instant) {
        self.is_silent = false;
        self.holder = Some((number, until));
        self.fairness.granted(now);
        if self.is_head(number) {
            self.promote(now + LOOK_AGAIN + Self::GRACE);
        } else {
            self.remove(number);
        }
    }

    /// The lock of this guard is given back, or may be: the head asks for it. Whether there is one.
    pub(super) fn freed(&mut self, number: Number, now: Instant) -> bool {
        if self.holder.is_some_and(|(holder, _)| holder == number) {
            self.holder = None;
            self.fairness.freed(now);
        }
        self.wake_head();
        self.has_waiters()
    }

    /// This waiter does not wait any more: if it was the head, the next one is, and is woken.
    pub(super) fn leaves(&mut self, number: Number, now: Instant) {
        if !self.is_head(number) {
            return self.remove(number);
        }
        self.is_silent |= self.waits_for_an_answer(now);
        #[cfg(test)]
        match () {
            () if flaws::has(Flaw::TurnLostOnDrop) => return self.head = None,
            () if flaws::has(Flaw::TurnGivenTwice) => self.promote(now + Self::GRACE),
            () => {}
        }
        self.promote(now + Self::GRACE);
        self.wake_head();
    }

    /// The head loses its place if nobody drives its future. The next waiter, if there is one, is the head then.
    pub(super) fn skip_overdue(&mut self, now: Instant) {
        let is_overdue = self.head.as_ref().is_some_and(|head| head.due <= now);
        if is_overdue {
            self.promote(now + Self::GRACE);
            self.wake_head();
        }
    }

    /// Whether it is known that somebody has the lock, rather than that the store does not answer.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.holder.is_some() || !(self.is_silent || self.waits_for_an_answer(now))
    }

    /// Whether the store should have answered the head by now.
    fn waits_for_an_answer(&self, now: Instant) -> bool {
        let patience = (self.longest_answer * 3).max(Self::USUAL_ANSWER);
        let asked = self.head.as_ref().and_then(|head| head.asked);
        asked.is_some_and(|asked| now.saturating_duration_since(asked) > patience)
    }

    /// Leaves a watch to the next head. Gives back what nobody needs, to be dropped elsewhere.
    pub(super) fn leave_watch(&mut self, watch: Option<KeyWatch>) -> [Option<KeyWatch>; 2] {
        match (&self.head, watch) {
            (None, watch) => [watch, self.watch.take()],
            (Some(_), None) => [None, None],
            (Some(_), Some(watch)) => [self.watch.replace(watch), None],
        }
    }

    pub(super) fn take_watch(&mut self) -> Option<KeyWatch> {
        self.watch.take()
    }

    pub(super) fn is_head(&self, number: Number) -> bool {
        self.head.as_ref().is_some_and(|head| head.number == number)
    }

    /// Whether this waiter stands in the queue, at whatever place.
    pub(super) fn has(&self, number: Number) -> bool {
        self.is_head(number) || self.position(number).is_ok()
    }

    fn wake_head(&mut self) {
        if let Some(head) = &mut self.head {
            head.bell.ring();
        }
    }

    fn promote(&mut self, due: Instant) {
        #[cfg(test)]
        if flaws::has(Flaw::LastFirst) {
            self.waiting.rotate_right(usize::from(self.has_queued()));
        }
        let next = self.waiting.pop_front();
        self.head =
            next.map(|(number, bell)| Head { number, bell: Bell::Some(bell), asked: None, due });
        self.tell_the_one_behind_the_head();
    }

    fn remove(&mut self, number: Number) {
        if let Ok(position) = self.position(number) {
            self.waiting.remove(position);
            if position == 0 {
                self.tell_the_one_behind_the_head();
            }
        }
    }

    /// Another waiter has come to stand behind the head, and looks after it from now on.
    fn tell_the_one_behind_the_head(&self) {
        if let Some((_, bell)) = self.waiting.front() {
            bell.notify_one();
        }
    }

    fn head_if(&mut self, number: Number) -> Option<&mut Head> {
        self.head.as_mut().filter(|head| head.number == number)
    }

    fn position(&self, number: Number) -> Result<usize, usize> {
        self.waiting.binary_search_by_key(&number, |(number, _)| *number)
    }
}
