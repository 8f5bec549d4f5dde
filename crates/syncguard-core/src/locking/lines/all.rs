//! All lines of a backend in this process.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use super::line::{Line, Ticket};
use crate::Key;
use crate::rt::{Instant, Mutex};

/// The lines of a backend in this process, by key. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    lines: HashMap<Key, Line>,
    /// Whether no other process can want these locks.
    are_alone: bool,
    last_ticket: Ticket,
}

impl Lines {
    /// Lines for locks that no other process can want: they never step back.
    pub(crate) fn of_one_process() -> Self {
        let lines = Self::default();
        lines.0.lock().are_alone = true;
        lines
    }

    /// Does something with the line of a key, which is made if there is none, and with a new ticket.
    pub(super) fn with_new<T>(&self, key: &Key, work: impl FnOnce(&mut Line, Ticket) -> T) -> T {
        let mut state = self.0.lock();
        state.last_ticket += 1;
        let ticket = state.last_ticket;
        let are_alone = state.are_alone;
        let new = || Line::new(are_alone);
        work(state.lines.entry(key.clone()).or_insert_with(new), ticket)
    }

    /// Does something with the line of a key if there is one, and forgets the line if nobody is left.
    pub(super) fn with<T>(&self, key: &Key, work: impl FnOnce(&mut Line) -> T) -> Option<T> {
        let mut state = self.0.lock();
        // Hashed once.
        let Entry::Occupied(mut line) = state.lines.entry(key.clone()) else { return None };
        let result = work(line.get_mut());
        let left = line.get().is_empty().then(|| line.remove());
        drop(state);
        // Not under the lock: its watch may do something when it is dropped.
        drop(left);
        Some(result)
    }

    /// Whether somebody stands in the line of a key.
    pub(in crate::locking) fn has_waiters(&self, key: &Key, now: Instant) -> bool {
        self.with(key, |line| {
            line.skip_the_overdue(now);
            line.has_waiters()
        })
        .unwrap_or(false)
    }

    /// How many keys somebody of this process waits for, or has.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().lines.len()
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("keys", &self.len()).finish()
    }
}
