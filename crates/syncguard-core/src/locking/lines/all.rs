//! All lines of a backend in this process.

use std::collections::HashMap;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::Arc;

use super::line::{Line, Ticket};
use crate::Key;
use crate::rt::{Instant, Mutex};

/// The lines of a backend in this process. Clones share them.
#[derive(Clone, Default)]
pub(crate) struct Lines(Arc<Mutex<State>>);

/// Of a line. It is looked for by its key once; whoever stands in it finds it by this.
pub(super) type LineNumber = u64;

#[derive(Default)]
struct State {
    by_key: HashMap<Key, LineNumber>,
    lines: HashMap<LineNumber, (Key, Line), BuildHasherDefault<Spread>>,
    /// Whether no other process can want these locks.
    are_alone: bool,
    /// Of a line or a ticket.
    last_number: u64,
}

impl State {
    fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }
}

impl Lines {
    /// Lines for locks that no other process can want: they never step back.
    pub(crate) fn of_one_process() -> Self {
        let lines = Self::default();
        lines.0.lock().are_alone = true;
        lines
    }

    /// Does something with the line of a key, which is made if there is none, and with a new ticket. Says
    /// which line it is.
    pub(super) fn with_new<T>(
        &self,
        key: &Key,
        work: impl FnOnce(&mut Line, Ticket) -> T,
    ) -> (LineNumber, T) {
        let mut state = self.0.lock();
        let ticket = state.next_number();
        let number = match state.by_key.get(key) {
            Some(number) => *number,
            None => {
                let number = state.next_number();
                state.by_key.insert(key.clone(), number);
                number
            }
        };
        let are_alone = state.are_alone;
        let new = || (key.clone(), Line::new(are_alone));
        let (_, line) = state.lines.entry(number).or_insert_with(new);
        (number, work(line, ticket))
    }

    /// Does something with a line if it is still there, and forgets it if nobody is left.
    pub(super) fn with<T>(
        &self,
        number: LineNumber,
        work: impl FnOnce(&mut Line) -> T,
    ) -> Option<T> {
        let mut state = self.0.lock();
        let (_, line) = state.lines.get_mut(&number)?;
        let result = work(line);
        if line.is_empty() {
            let left = state.lines.remove(&number);
            if let Some((key, _)) = &left {
                state.by_key.remove(key);
            }
            drop(state);
            // Not under the lock: its watch may do something when it is dropped.
            drop(left);
        }
        Some(result)
    }

    /// Whether somebody stands in the line of a key.
    pub(in crate::locking) fn has_waiters(&self, key: &Key, now: Instant) -> bool {
        let number = self.0.lock().by_key.get(key).copied();
        let has_waiters = number.and_then(|number| {
            self.with(number, |line| {
                line.skip_the_overdue(now);
                line.has_waiters()
            })
        });
        has_waiters.unwrap_or(false)
    }

    /// How many keys somebody of this process waits for, or has.
    pub(crate) fn len(&self) -> usize {
        self.0.lock().by_key.len()
    }
}

impl fmt::Debug for Lines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lines").field("keys", &self.len()).finish()
    }
}

/// Spreads numbers that count up, which nobody else can choose.
#[derive(Default)]
struct Spread(u64);

impl Hasher for Spread {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
