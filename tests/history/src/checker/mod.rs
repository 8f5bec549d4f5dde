//! The ten invariants, over histories of any length.
//!
//! Lines are read in the order of their times. An invariant is held against each answer as it comes,
//! where everything that it speaks of has an earlier time; what speaks of a whole lock, when that
//! is over for certain. Then the lock is forgotten. What outlives it is kept for its key: the highest
//! fence and who had it, the life that ends last, and of the other locks as much as can matter to
//! those that began before they were forgotten.

mod found;
mod key;
mod lock;
mod locks;
mod orphans;
mod registers;
mod service;
mod stairs;
mod table;
mod turns;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use self::found::Found;
use self::locks::Locks;
use self::registers::Registers;
use self::service::Service;
use crate::counts::Counts;
use crate::event::{Call, Entry, Line, Moment};
use crate::invariant::{Invariant, Limits, Violation};
use crate::operation::Operation;

/// A call that is not answered for so long holds nothing up any more: its caller was killed, and nobody
/// has said so.
const PATIENCE: Duration = Duration::from_secs(60);

/// Holds lines against the invariants as they come.
///
/// Feed it the lines of all writers, and [`advance`](Self::advance) to a time up to which nothing can come
/// any more. It keeps what has happened in the last seconds, and of each key a little more.
#[derive(Debug)]
pub struct Checker {
    limits: Limits,
    /// What is read and not looked at, because something earlier may come.
    ahead: VecDeque<Line>,
    is_sorted: bool,
    /// Where the lines that were looked at end.
    now: u64,
    open: HashMap<Caller, Operation>,
    /// Those that are open, and some that are over, in the order of their calls.
    calls: VecDeque<(u64, Caller)>,
    locks: Locks,
    registers: Registers,
    service: Service,
    counts: Counts,
    found: Found,
    was_quiet: bool,
    refused: u64,
}

/// The name of a process, hashed, and the number of its operation.
type Caller = (u64, u64);

/// What a checker keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    /// Lines that are not looked at yet.
    pub ahead: usize,
    /// Operations that are under way.
    pub open: usize,
    /// Lock ids.
    pub locks: usize,
    /// What is left of locks that are forgotten, and of registers.
    pub carried: usize,
}

impl Retained {
    /// All of it.
    #[must_use]
    pub fn all(&self) -> usize {
        self.ahead + self.open + self.locks + self.carried
    }
}

/// What a run comes to.
#[derive(Clone, Debug)]
pub struct Verdict {
    /// What was broken, sorted by invariant: the first hundred of each.
    pub violations: Vec<Violation>,
    /// How many there were.
    pub violated: u64,
    /// What has happened.
    pub counts: Counts,
    /// The longest time from the end of a fault to the answer of the first call made after it that was
    /// served, in milliseconds.
    pub longest_outage_ms: u64,
}

impl Checker {
    /// Nothing has happened yet.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            ahead: VecDeque::new(),
            is_sorted: true,
            now: 0,
            open: HashMap::new(),
            calls: VecDeque::new(),
            locks: Locks::default(),
            registers: Registers::default(),
            service: Service::default(),
            counts: Counts::default(),
            found: Found::default(),
            was_quiet: false,
            refused: 0,
        }
    }

    /// Takes a line; those of one process come in their order.
    pub fn feed(&mut self, line: Line) {
        if self.ahead.back().is_some_and(|last| line.order() < last.order()) {
            self.is_sorted = false;
        }
        self.ahead.push_back(line);
    }

    /// Looks at all lines before this time, in microseconds of the steady clock. Later lines for an earlier
    /// time are looked at too late: what they show is not certain.
    pub fn advance(&mut self, before: u64) {
        if !self.is_sorted {
            self.ahead.make_contiguous().sort_by_key(Line::order);
            self.is_sorted = true;
        }
        while self.ahead.front().is_some_and(|line| line.at.steady < before) {
            let line = self.ahead.pop_front();
            if let Some(line) = line {
                self.look(line);
            }
        }
        if before < u64::MAX {
            self.pass(before);
        }
    }

    /// What was broken until now, in the order in which it was noticed: the first hundred of each
    /// invariant.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.found.violations
    }

    /// What has happened until now.
    #[must_use]
    pub fn counts(&self) -> &Counts {
        &self.counts
    }

    /// The longest time from the end of a fault to the answer of the first call made after it that was
    /// served, in milliseconds.
    #[must_use]
    pub fn longest_outage_ms(&self) -> u64 {
        self.service.longest_outage_ms()
    }

    /// How many lines made no sense: answers without a call.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// What it keeps.
    #[must_use]
    pub fn retained(&self) -> Retained {
        let (locks, carried) = self.locks.retained();
        let carried = carried + self.registers.retained();
        Retained { ahead: self.ahead.len(), open: self.open.len(), locks, carried }
    }

    /// Nothing comes any more.
    #[must_use]
    pub fn finish(mut self) -> Verdict {
        self.advance(u64::MAX);
        self.now = u64::MAX;
        let left: Vec<Operation> = self.open.drain().map(|(_, operation)| operation).collect();
        for operation in left {
            let gone = operation.called.steady;
            self.close(operation, gone);
        }
        let Self { limits, locks, registers, service, found, .. } = &mut self;
        locks.finish(limits, found);
        registers.finish(found);
        service.judge(u64::MAX, limits, found);
        if !self.was_quiet {
            self.found.add(Invariant::NothingLeft, "nobody looked".to_owned(), []);
        }
        let Found { mut violations, count, .. } = self.found;
        violations.sort_by_key(|violation| violation.invariant);
        let longest_outage_ms = self.service.longest_outage_ms();
        Verdict { violations, violated: count, counts: self.counts, longest_outage_ms }
    }

    fn look(&mut self, Line { at, process, entry }: Line) {
        self.pass(at.steady);
        match entry {
            Entry::Called { number, call } => {
                let caller = (hashed(&process), number);
                let operation = Operation { process, number, call, called: at, answered: None };
                self.service.called(&operation);
                self.locks.called(&operation);
                self.calls.push_back((at.steady, caller));
                self.open.insert(caller, operation);
            }
            Entry::Answered { number, answer } => {
                let Some(mut operation) = self.open.remove(&(hashed(&process), number)) else {
                    self.refused += 1;
                    return;
                };
                operation.answered = Some((at, answer));
                self.close(operation, at.steady);
            }
            note => self.note(at, &note),
        }
    }

    /// All lines before `now` were looked at.
    fn pass(&mut self, now: u64) {
        if self.now >= now {
            return;
        }
        self.now = now;
        let oldest = self.oldest();
        let Self { limits, locks, service, found, .. } = self;
        locks.passes(now, oldest, limits, found);
        service.judge(now, limits, found);
    }

    /// An operation is over, or nobody will hear of it.
    fn close(&mut self, operation: Operation, gone: u64) {
        let oldest = self.oldest();
        let operation = Arc::new(operation);
        self.counts.operation(&operation);
        self.service.closes(&operation);
        match operation.call {
            Call::Claim { .. } | Call::Write { .. } => {
                self.registers.closes(&operation, oldest, &mut self.found);
            }
            _ => self.locks.closes(&operation, gone, &self.limits, &mut self.found),
        }
    }

    fn note(&mut self, at: Moment, note: &Entry) {
        self.counts.note(note);
        self.service.note(at.steady, note, &self.limits);
        match note {
            Entry::Ended { process } => self.ended(hashed(process), at.steady),
            Entry::Quiet { live, tasks, borrowed } => {
                self.was_quiet = true;
                if (*live, *tasks, *borrowed) != (0, 0, 0) {
                    let what = format!(
                        "{live} live records, {tasks} tasks, {borrowed} connections are left"
                    );
                    self.found.add(Invariant::NothingLeft, what, []);
                }
            }
            Entry::Semaphore { key, permits } => self.locks.semaphore(key, *permits),
            Entry::Told { left: 0 } => {
                let what =
                    format!("the work of a leader was told at {at:?}, when its time was over");
                self.found.add(Invariant::ToldInTime, what, []);
            }
            Entry::Register { register, value, writes } => {
                self.registers.found(register, *value, *writes);
            }
            _ => {}
        }
    }

    /// Nobody of that process hears an answer any more. Whoever was stopped first and killed then may have
    /// sent it in between.
    fn ended(&mut self, process: u64, at: u64) {
        let of_it: Vec<Caller> =
            self.open.keys().filter(|(of, _)| *of == process).copied().collect();
        for caller in of_it {
            if let Some(operation) = self.open.remove(&caller) {
                let gone = operation.called.steady.max(at);
                self.close(operation, gone);
            }
        }
    }

    /// When the oldest call was made that is not answered.
    fn oldest(&mut self) -> u64 {
        while self.calls.front().is_some_and(|(_, caller)| !self.open.contains_key(caller)) {
            self.calls.pop_front();
        }
        let patient = self.now.saturating_sub(micros(PATIENCE));
        self.calls.front().map_or(self.now, |(called, _)| patient.max(*called))
    }
}

fn hashed(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

pub(super) fn micros(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
