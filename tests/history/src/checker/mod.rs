//! The twelve invariants, over histories of any length.
//!
//! Lines are read in the order of their times. An invariant is checked at each answer if it refers only to earlier
//! times. An invariant about a whole lock is checked when the lock is certainly over. Then the lock is forgotten. Its
//! key keeps the highest fence and its owner, the life that ends last, and as much of the other locks as can matter
//! to locks that began before they were forgotten.

mod found;
mod key;
mod lock;
mod locks;
mod orphans;
mod registers;
mod service;
mod stairs;
mod table;
mod ticks;
mod turns;
mod uses;

use std::collections::{HashMap, VecDeque};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::Arc;
use std::time::Duration;

use self::found::Found;
use self::locks::Locks;
use self::registers::Registers;
use self::service::Service;
use self::ticks::{Start, Ticks};
use self::uses::{Use, Uses};
use crate::counts::Counts;
use crate::event::{Call, Entry, Line, Moment};
use crate::invariant::{Invariant, Limits, Violation};
use crate::operation::Operation;

/// A call that is not answered for this long does not delay the checks any more: its caller was killed without a
/// record of that.
const PATIENCE: Duration = Duration::from_secs(60);

/// Checks lines against the invariants as they come.
///
/// Feed it the lines of all writers, and [`advance`](Self::advance) it to a time before which no line can come any
/// more. It keeps the events of the last seconds, and a little more of each key.
#[derive(Debug)]
pub struct Checker {
    limits: Limits,
    /// Lines that were read and not examined, because earlier lines may come.
    ahead: VecDeque<Line>,
    is_sorted: bool,
    /// The time up to which lines were examined.
    now: u64,
    open: HashMap<Caller, Operation>,
    /// Operations in progress, and some that have ended, in the order of their calls.
    calls: VecDeque<(u64, Caller)>,
    locks: Locks,
    registers: Registers,
    service: Service,
    ticks: Ticks,
    uses: Uses,
    counts: Counts,
    found: Found,
    was_quiet: bool,
    refused: u64,
}

/// The hashed name of a process, and the number of its operation.
type Caller = (u64, u64);

/// The sizes of a checker's memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Retained {
    pub ahead: usize,
    pub open: usize,
    pub locks: usize,
    /// The rest of forgotten locks, and of registers, and the starts of ticks.
    pub carried: usize,
}

impl Retained {
    #[must_use]
    pub fn all(&self) -> usize {
        self.ahead + self.open + self.locks + self.carried
    }
}

#[derive(Clone, Debug)]
pub struct Verdict {
    /// The violations, sorted by invariant: the first hundred of each.
    pub violations: Vec<Violation>,
    pub violated: u64,
    pub counts: Counts,
    /// The longest time from the end of a fault to the answer of the first call made after it that was
    /// served, in milliseconds.
    pub longest_outage_ms: u64,
}

impl Checker {
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
            ticks: Ticks::default(),
            uses: Uses::default(),
            counts: Counts::default(),
            found: Found::default(),
            was_quiet: false,
            refused: 0,
        }
    }

    /// Takes a line. The lines of one process come in their order.
    pub fn feed(&mut self, line: Line) {
        if self.ahead.back().is_some_and(|last| line.order() < last.order()) {
            self.is_sorted = false;
        }
        self.ahead.push_back(line);
    }

    /// Examines all lines before this time, in microseconds of the steady clock. Later lines for an earlier time come
    /// too late: their result is not certain.
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

    /// The violations so far, in the order in which they were noticed: the first hundred of each invariant.
    #[must_use]
    pub fn violations(&self) -> &[Violation] {
        &self.found.violations
    }

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

    /// The number of invalid lines: answers without a call.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.refused
    }

    #[must_use]
    pub fn retained(&self) -> Retained {
        let (locks, carried) = self.locks.retained();
        let carried = carried + self.registers.retained() + self.ticks.retained();
        let carried = carried + self.uses.retained();
        Retained { ahead: self.ahead.len(), open: self.open.len(), locks, carried }
    }

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

    /// All lines before `now` were examined.
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

    /// An operation has ended, or its answer will never come.
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
            Entry::Tick { key, tick, attempt, attempts } => {
                let start = Start { at, tick: *tick, attempt: *attempt, attempts: *attempts };
                self.ticks.started(key, start, &self.limits, &mut self.found);
            }
            Entry::Uses { key, number, writes, fence, until } => {
                let (number, writes, fence, until) = (*number, *writes, *fence, *until);
                self.uses.relies(key, Use { number, writes, fence, until }, at, &mut self.found);
            }
            Entry::Register { register, value, writes } => {
                self.registers.found(register, *value, *writes);
            }
            _ => {}
        }
    }

    /// The process is gone and gets no answers any more. A process that was stopped first and killed then may have
    /// sent a request in between.
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

    /// The time of the oldest call without an answer.
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
