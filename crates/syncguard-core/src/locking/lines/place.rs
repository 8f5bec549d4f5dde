//! A place in a line.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Notify;

use super::all::{LineNumber, Lines};
use super::line::{Line, Ticket, Turn};
use super::pace::HoldBack;
use super::tenure::Tenure;
use crate::Key;
use crate::contract::KeyWatch;
use crate::rt::Instant;

/// A place in the line of a key. Dropped, it is given up, and the turn passes on.
pub(in crate::locking) struct Place {
    lines: Lines,
    key: Key,
    line: LineNumber,
    ticket: Ticket,
    /// Of the first one alone.
    pub(in crate::locking) watch: Option<KeyWatch>,
    is_given_up: bool,
}

impl Place {
    /// How often one that is not first looks whether it is.
    pub(in crate::locking) const LOOK_AGAIN: Duration = Line::LOOK_AGAIN;

    /// Stands in line, and says what is to be done now.
    pub(in crate::locking) fn enter(lines: &Lines, key: &Key, now: Instant) -> (Self, Turn) {
        let (line, (ticket, turn)) =
            lines.with_new(key, |line, ticket| (ticket, line.join(ticket, now)));
        let (lines, key) = (lines.clone(), key.clone());
        (Self { lines, key, line, ticket, watch: None, is_given_up: false }, turn)
    }

    /// What is to be done now.
    pub(in crate::locking) fn turn(&mut self, now: Instant) -> Turn {
        let found = self.lines.with(self.line, |line| {
            let turn = line.turn(self.ticket, now)?;
            let watch = if matches!(turn, Turn::Later(_)) { None } else { line.take_watch() };
            Some((turn, watch))
        });
        let Some((turn, watch)) = found.flatten() else {
            // Passed over because nobody drove this future: at the end again.
            let (line, (ticket, turn)) =
                self.lines.with_new(&self.key, |line, ticket| (ticket, line.join(ticket, now)));
            (self.line, self.ticket) = (line, ticket);
            return turn;
        };
        if watch.is_some() {
            self.watch = watch;
        }
        turn
    }

    /// The store is asked, whoever has the lock.
    pub(in crate::locking) fn asks(&self, now: Instant) {
        self.lines.with(self.line, |line| line.asks(self.ticket, now));
    }

    /// The store has answered that somebody else has the lock, which may have been free a moment ago.
    /// `is_deaf`: the store tells nobody of releases.
    pub(in crate::locking) fn refused(&self, now: Instant, was_race: bool, is_deaf: bool) {
        self.lines.with(self.line, |line| line.refused(self.ticket, now, was_race, is_deaf));
    }

    /// Others were faster, as a look has shown.
    pub(in crate::locking) fn was_outrun(&self, now: Instant) {
        self.lines.with(self.line, |line| line.was_outrun(now));
    }

    /// The first one waits until then, or for the bell. Also whether others wait behind it. `None` if
    /// it is not the first any more.
    pub(in crate::locking) fn waits(&self, until: Instant) -> Option<(Arc<Notify>, bool)> {
        let waits = self.lines.with(self.line, |line| {
            let has_others = line.has_others();
            line.waits(self.ticket, until).map(|bell| (bell, has_others))
        });
        waits.flatten()
    }

    /// Somebody has found the key in a gap, and may have it until then as long as it is in use.
    pub(in crate::locking) fn has_guests(&self, until: Instant) {
        self.lines.with(self.line, |line| line.has_guests(until));
    }

    /// What to do after a signal, which others have heard as well.
    pub(in crate::locking) fn hold_back(&self, now: Instant) -> HoldBack {
        self.lines.with(self.line, |line| line.pace.hold_back(now)).unwrap_or_default()
    }

    /// Whether it is known that somebody has the lock, rather than that the store does not answer.
    pub(in crate::locking) fn is_contended(&self, now: Instant) -> bool {
        self.lines.with(self.line, |line| line.is_contended(now)).unwrap_or(true)
    }

    /// The lock is granted, and the store lets go of it at `until` unless it is extended. The place is
    /// given up.
    pub(in crate::locking) fn granted(&mut self, until: Instant, now: Instant) -> Tenure {
        self.is_given_up = true;
        let watch = &mut self.watch;
        let ticket = self.ticket;
        let found = self.lines.with(self.line, |line| {
            line.granted(ticket, until, now);
            line.leave_watch(watch.take())
        });
        if found.is_none() {
            // Passed over, and the others have gone since.
            return Tenure::begin(&self.lines, &self.key, until, now);
        }
        Tenure::new(self.lines.clone(), self.line, ticket)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if self.is_given_up {
            return;
        }
        let watch = self.watch.take();
        let unwanted = self.lines.with(self.line, |line| {
            line.leaves(self.ticket, Instant::now());
            line.leave_watch(watch)
        });
        drop(unwanted);
    }
}
