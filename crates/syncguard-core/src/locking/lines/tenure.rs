//! The time in which a guard of this process has a lock.

use std::sync::atomic::{AtomicBool, Ordering};

use super::all::{LineNumber, Lines};
use super::line::Ticket;
use crate::Key;
use crate::rt::Instant;

/// A guard of this process has the lock. Dropped, the turn passes on.
#[derive(Debug)]
pub(crate) struct Tenure {
    lines: Lines,
    line: LineNumber,
    ticket: Ticket,
    is_over: AtomicBool,
}

impl Tenure {
    /// Of the one with this ticket.
    pub(super) fn new(lines: Lines, line: LineNumber, ticket: Ticket) -> Self {
        Self { lines, line, ticket, is_over: AtomicBool::new(false) }
    }

    /// Of a guard that has got the lock without standing in the line. The store lets go of the lock at
    /// `until` unless it is extended.
    pub(in crate::locking) fn begin(
        lines: &Lines,
        key: &Key,
        until: Instant,
        now: Instant,
    ) -> Self {
        let (line, ticket) = lines.with_new(key, |line, ticket| {
            line.granted(ticket, until, now);
            ticket
        });
        Self::new(lines.clone(), line, ticket)
    }

    /// The lock is given back, or may be: whoever is first in the line has a look. Whether there is one.
    pub(in crate::locking) fn freed(&self) -> bool {
        self.is_over.store(true, Ordering::Relaxed);
        self.lines.with(self.line, |line| line.freed(self.ticket)).unwrap_or(false)
    }
}

impl Drop for Tenure {
    fn drop(&mut self) {
        if !self.is_over.load(Ordering::Relaxed) {
            self.freed();
        }
    }
}
