//! Writing a history.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use rustix::time::{ClockId, clock_gettime};
use tokio::time::Instant;

use crate::checker::Checker;
use crate::event::{Answer, Call, Entry, Line, Moment};
use crate::history::History;

/// The clock of a history.
#[derive(Clone, Debug)]
pub enum Clock {
    /// The clocks of the machine, which all processes share.
    Machine,
    /// Tokio's, which may be paused.
    Tokio {
        /// A point in time by tokio's clock.
        at: Instant,
        /// The steady clock at that time.
        steady: Duration,
        /// The wall clock when the steady clock is zero.
        unix: SystemTime,
        /// The microseconds since that time in which tokio's clock stood still.
        asleep: Arc<AtomicU64>,
    },
}

impl Clock {
    fn now(&self) -> Moment {
        let (steady, unix) = match self {
            Self::Machine => {
                let time = clock_gettime(ClockId::Monotonic);
                let seconds = Duration::from_secs(time.tv_sec.unsigned_abs());
                (seconds + Duration::from_nanos(time.tv_nsec.unsigned_abs()), SystemTime::now())
            }
            Self::Tokio { at, steady, unix, asleep } => {
                let asleep = Duration::from_micros(asleep.load(Ordering::Relaxed));
                let steady = *steady + at.elapsed() + asleep;
                (steady, *unix + steady)
            }
        };
        let unix = unix.duration_since(UNIX_EPOCH).unwrap_or_default();
        Moment { steady: whole(steady.as_micros()), unix: whole(unix.as_millis()) }
    }
}

fn whole(number: u128) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}

/// The part of a history that one process or task writes. Clones write the same part.
#[derive(Clone, Debug)]
pub struct Recorder {
    process: Arc<str>,
    /// Set when the process is killed: it writes nothing after that.
    is_silent: Arc<AtomicBool>,
    clock: Clock,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    numbers: AtomicU64,
    sink: Mutex<Sink>,
}

#[derive(Debug)]
enum Sink {
    File(File),
    Memory(Vec<Line>),
    Checked(Box<Checker>),
}

impl Sink {
    fn write(&mut self, line: Line) {
        match self {
            Sink::Memory(lines) => lines.push(line),
            Sink::Checked(checker) => checker.feed(line),
            Sink::File(file) => {
                let text = serde_json::to_string(&line).expect("a line of JSON") + "\n";
                file.write_all(text.as_bytes()).expect("a history that can be written");
            }
        }
    }
}

impl Recorder {
    /// Writes to a new file, each line with one system call.
    ///
    /// # Errors
    ///
    /// If the file cannot be created.
    pub fn to_file(process: &str, path: &Path) -> Result<Self> {
        let file = File::options().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Self::new(process, Clock::Machine, Sink::File(file)))
    }

    /// Keeps the lines in memory: see [`history`](Self::history).
    #[must_use]
    pub fn in_memory(clock: Clock) -> Self {
        Self::new("main", clock, Sink::Memory(Vec::new()))
    }

    /// Feeds the lines to a checker, and keeps none. A caller that knows that a time has passed for all writers tells
    /// the checker: see [`checked`](Self::checked).
    #[must_use]
    pub fn checking(clock: Clock, checker: Checker) -> Self {
        Self::new("main", clock, Sink::Checked(Box::new(checker)))
    }

    fn new(process: &str, clock: Clock, sink: Sink) -> Self {
        let shared = Shared { numbers: AtomicU64::new(0), sink: Mutex::new(sink) };
        let is_silent = Arc::default();
        Self { process: process.into(), is_silent, clock, shared: Arc::new(shared) }
    }

    /// Writes to the same place under another name.
    #[must_use]
    pub fn named(&self, process: &str) -> Self {
        self.elsewhere(process, self.clock.clone())
    }

    /// Writes to the same place under another name, by another clock.
    #[must_use]
    pub fn elsewhere(&self, process: &str, clock: Clock) -> Self {
        let (is_silent, shared) = (Arc::default(), Arc::clone(&self.shared));
        Self { process: process.into(), is_silent, clock, shared }
    }

    /// Ends all writing under this name, because its process was killed.
    pub fn silence(&self) {
        self.is_silent.store(true, Ordering::Relaxed);
    }

    #[must_use]
    pub fn call(&self, call: Call) -> Pending {
        let number = self.shared.numbers.fetch_add(1, Ordering::Relaxed);
        self.note(Entry::Called { number, call });
        Pending { recorder: self.clone(), number, answered: false }
    }

    pub fn note(&self, entry: Entry) {
        if self.is_silent.load(Ordering::Relaxed) {
            return;
        }
        let mut sink = self.sink();
        // Under the lock, so that the order of the lines is the order of their times.
        let line = Line { at: self.clock.now(), process: self.process.to_string(), entry };
        sink.write(line);
    }

    #[must_use]
    pub fn now(&self) -> Moment {
        self.clock.now()
    }

    pub fn write(&self, line: Line) {
        self.sink().write(line);
    }

    #[must_use]
    pub fn history(&self) -> History {
        match &*self.sink() {
            Sink::File(_) | Sink::Checked(_) => History::default(),
            Sink::Memory(lines) => History::new(lines.iter().cloned()).expect("calls with answers"),
        }
    }

    /// The checker that gets the lines, if there is one.
    pub fn checked<T>(&self, look: impl FnOnce(&mut Checker) -> T) -> Option<T> {
        match &mut *self.sink() {
            Sink::Checked(checker) => Some(look(checker)),
            Sink::File(_) | Sink::Memory(_) => None,
        }
    }

    fn sink(&self) -> MutexGuard<'_, Sink> {
        self.shared.sink.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug)]
pub struct Pending {
    recorder: Recorder,
    number: u64,
    answered: bool,
}

impl Pending {
    pub fn answer(mut self, answer: Answer) {
        self.answered = true;
        self.recorder.note(Entry::Answered { number: self.number, answer });
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            let answer = Answer::Dropped;
            self.recorder.note(Entry::Answered { number: self.number, answer });
        }
    }
}
