//! One line.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

#[cfg(test)]
use super::flaws::{self, Flaw};
use super::pace::Pace;
use crate::contract::KeyWatch;
use crate::rt::Instant;

/// Numbers grow, so the waiters of a line are sorted by theirs.
pub(super) type Ticket = u64;

/// Who waits for a key in this process, and who has it. While anybody waits, somebody is first.
pub(super) struct Line {
    first: Option<First>,
    others: VecDeque<(Ticket, Arc<Notify>)>,
    /// The guard of this process that has the lock, and when the store lets go of it unless it is extended.
    holder: Option<(Ticket, Instant)>,
    pub(super) pace: Pace,
    /// What the last one that was first has left to the next.
    watch: Option<KeyWatch>,
    /// The longest that an answer of the store took while somebody waited.
    longest_answer: Duration,
    /// Whether one has left that the store had not answered, and nobody has heard from it since.
    is_silent: bool,
}

/// The one that contends in the store.
struct First {
    ticket: Ticket,
    bell: Bell,
    /// Since when the store is being asked.
    asked: Option<Instant>,
    /// When it must have done something. If it has not, nobody drives it, and the next one is first.
    due: Instant,
}

impl First {
    fn asks(&mut self, now: Instant) {
        self.asked = Some(now);
        self.due = now + Line::PATIENCE;
    }
}

/// What wakes one that waits. A ring is kept until somebody waits for it.
enum Bell {
    /// It never had to wait.
    None,
    /// It never had to wait, and would have been woken.
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

/// What one of a line does next.
#[derive(Debug)]
pub(in crate::locking) enum Turn {
    /// Others are before it: it waits for its bell, and looks again after
    /// [a time](Line::LOOK_AGAIN).
    Later(Arc<Notify>),
    /// The store is asked.
    Ask,
    /// Others may go first: the store is asked after a random time in this range.
    StepBack(Range<Duration>),
    /// A guard of this process has the lock, until then at the most unless it is extended.
    Held(Instant),
}

impl Line {
    /// How often those who are not first look whether they are.
    pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(500);
    /// How late the first one may be with what it does next.
    const GRACE: Duration = Duration::from_secs(1);
    /// How long it may wait for the store before the next one asks as well.
    const PATIENCE: Duration = Duration::from_secs(10);
    /// An answer of the store may take this long before somebody says that there is none.
    const USUAL_ANSWER: Duration = Duration::from_millis(100);

    pub(super) fn new(is_alone: bool) -> Self {
        Self {
            first: None,
            others: VecDeque::new(),
            holder: None,
            pace: Pace::new(is_alone),
            watch: None,
            longest_answer: Duration::ZERO,
            is_silent: false,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.first.is_none() && self.holder.is_none()
    }

    pub(super) fn has_waiters(&self) -> bool {
        self.first.is_some()
    }

    pub(super) fn has_others(&self) -> bool {
        !self.others.is_empty()
    }

    /// One more waits: as the first, or with a bell.
    pub(super) fn join(&mut self, ticket: Ticket, now: Instant) -> Turn {
        self.skip_the_overdue(now);
        #[cfg(test)]
        if flaws::has(Flaw::TwoContenders) {
            return Turn::Ask;
        }
        if self.first.is_none() {
            self.first = Some(First { ticket, bell: Bell::None, asked: None, due: now });
            return self.turn_of_first(now);
        }
        let bell = Arc::new(Notify::new());
        self.others.push_back((ticket, Arc::clone(&bell)));
        Turn::Later(bell)
    }

    /// What this one does next; `None` if it was passed over.
    pub(super) fn turn(&mut self, ticket: Ticket, now: Instant) -> Option<Turn> {
        // The first waiter, however late, keeps its place while no other one wants it.
        if self.has_others() {
            self.skip_the_overdue(now);
        }
        if self.is_first(ticket) {
            return Some(self.turn_of_first(now));
        }
        let (_, bell) = self.others.get(self.position(ticket).ok()?)?;
        Some(Turn::Later(Arc::clone(bell)))
    }

    fn turn_of_first(&mut self, now: Instant) -> Turn {
        let Some(first) = &mut self.first else { return Turn::Ask };
        if let Some((_, until)) = self.holder.filter(|(_, until)| *until > now) {
            first.due = until + Self::GRACE;
            return Turn::Held(until);
        }
        first.asks(now);
        self.pace.step_back(now).map_or(Turn::Ask, Turn::StepBack)
    }

    /// The first one asks the store, whoever has the lock.
    pub(super) fn asks(&mut self, ticket: Ticket, now: Instant) {
        if let Some(first) = self.first_if(ticket) {
            first.asks(now);
        }
    }

    /// The store has answered that somebody else has the lock, which may have been free a moment ago.
    pub(super) fn refused(&mut self, ticket: Ticket, now: Instant, was_race: bool, is_deaf: bool) {
        self.others_have_it(now, was_race, is_deaf);
        let asked = self.first_if(ticket).and_then(|first| first.asked.take());
        if let Some(asked) = asked {
            let took = now.saturating_duration_since(asked);
            self.longest_answer = self.longest_answer.max(took);
        }
    }

    /// Others were faster, as a look has shown.
    pub(super) fn was_outrun(&mut self, now: Instant) {
        self.others_have_it(now, true, false);
    }

    fn others_have_it(&mut self, now: Instant, was_race: bool, is_deaf: bool) {
        self.is_silent = false;
        if self.holder.is_none() {
            self.pace.lost(now, was_race, is_deaf);
        }
    }

    /// Whoever has the lock has found it in a gap, and may go first until then as long as it is in use.
    pub(super) fn has_guests(&mut self, until: Instant) {
        if self.holder.is_none() {
            self.pace.has_guests(until);
        }
    }

    /// The first one waits, until then at the most, or until its bell rings.
    pub(super) fn waits(&mut self, ticket: Ticket, until: Instant) -> Option<Arc<Notify>> {
        let first = self.first_if(ticket)?;
        first.asked = None;
        first.due = until + Self::GRACE;
        #[cfg(test)]
        if flaws::has(Flaw::WakeUpLost) {
            first.bell = Bell::None;
        }
        Some(first.bell.get())
    }

    /// This one has got the lock: the next one is the first. It is not woken, since there is nothing
    /// to do for it before the lock is given back.
    pub(super) fn granted(&mut self, ticket: Ticket, until: Instant, now: Instant) {
        self.is_silent = false;
        self.holder = Some((ticket, until));
        self.pace.won(now);
        if self.is_first(ticket) {
            self.promote(now + Self::LOOK_AGAIN + Self::GRACE);
        } else if let Ok(position) = self.position(ticket) {
            self.others.remove(position);
        }
    }

    /// The lock of this guard is given back, or may be: the first one has a look. Whether there is one.
    pub(super) fn freed(&mut self, ticket: Ticket) -> bool {
        if self.holder.is_some_and(|(holder, _)| holder == ticket) {
            self.holder = None;
        }
        self.wake_first();
        self.has_waiters()
    }

    /// This one does not wait any more: if it was the first, the next one is, and hears of it.
    pub(super) fn leaves(&mut self, ticket: Ticket, now: Instant) {
        if self.is_first(ticket) {
            self.is_silent |= self.waits_for_an_answer(now);
            #[cfg(test)]
            match () {
                () if flaws::has(Flaw::TurnLostOnDrop) => return self.first = None,
                () if flaws::has(Flaw::TurnGivenTwice) => self.promote(now + Self::GRACE),
                () => {}
            }
            self.promote(now + Self::GRACE);
            self.wake_first();
        } else if let Ok(position) = self.position(ticket) {
            self.others.remove(position);
        }
    }

    /// The first waiter loses its place if nobody drives its future. The next one, if there is one, is first then.
    pub(super) fn skip_the_overdue(&mut self, now: Instant) {
        let is_overdue = self.first.as_ref().is_some_and(|first| first.due <= now);
        if is_overdue {
            self.promote(now + Self::GRACE);
            self.wake_first();
        }
    }

    /// Whether it is known that somebody has the lock, rather than that the store does not answer.
    pub(super) fn is_contended(&self, now: Instant) -> bool {
        self.holder.is_some() || !(self.is_silent || self.waits_for_an_answer(now))
    }

    /// Whether the store should have answered the first one by now.
    fn waits_for_an_answer(&self, now: Instant) -> bool {
        let patience = (self.longest_answer * 3).max(Self::USUAL_ANSWER);
        let asked = self.first.as_ref().and_then(|first| first.asked);
        asked.is_some_and(|asked| now.saturating_duration_since(asked) > patience)
    }

    /// Leaves a watch to the next one. Gives back what nobody needs, to be dropped elsewhere.
    pub(super) fn leave_watch(&mut self, watch: Option<KeyWatch>) -> [Option<KeyWatch>; 2] {
        match (&self.first, watch) {
            (None, watch) => [watch, self.watch.take()],
            (Some(_), None) => [None, None],
            (Some(_), Some(watch)) => [self.watch.replace(watch), None],
        }
    }

    pub(super) fn take_watch(&mut self) -> Option<KeyWatch> {
        self.watch.take()
    }

    fn wake_first(&mut self) {
        if let Some(first) = &mut self.first {
            first.bell.ring();
        }
    }

    fn promote(&mut self, due: Instant) {
        #[cfg(test)]
        if flaws::has(Flaw::LastFirst) {
            self.others.rotate_right(usize::from(self.has_others()));
        }
        let next = self.others.pop_front();
        self.first =
            next.map(|(ticket, bell)| First { ticket, bell: Bell::Some(bell), asked: None, due });
    }

    fn is_first(&self, ticket: Ticket) -> bool {
        self.first.as_ref().is_some_and(|first| first.ticket == ticket)
    }

    fn first_if(&mut self, ticket: Ticket) -> Option<&mut First> {
        self.first.as_mut().filter(|first| first.ticket == ticket)
    }

    fn position(&self, ticket: Ticket) -> Result<usize, usize> {
        self.others.binary_search_by_key(&ticket, |(ticket, _)| *ticket)
    }
}
