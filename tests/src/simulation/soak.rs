//! Run after run, each on a seed of its own.

use std::fmt;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use super::{Flaw, limits, run};
use crate::history::{Counts, Violation, check};

/// How much is simulated.
#[derive(Clone, Copy, Debug)]
pub struct Soak {
    /// Of the first run; the others follow it.
    pub seed: u64,
    /// How many operations on locks there are to be at least, in all.
    pub operations: u64,
    /// How many threads simulate.
    pub threads: u64,
    /// How many simulated seconds one run takes.
    pub seconds: u64,
    /// What is wrong on purpose.
    pub flaw: Option<Flaw>,
}

impl Default for Soak {
    fn default() -> Self {
        Self { seed: 0, operations: 1_000_000, threads: 2, seconds: 60, flaw: None }
    }
}

/// What a soak has shown.
#[derive(Debug, Default)]
pub struct Soaked {
    /// How many runs were checked.
    pub runs: u64,
    /// What happened in all of them.
    pub counts: Counts,
    /// The longest time from the end of a fault to the next service, in milliseconds.
    pub longest_outage_ms: u64,
    /// How long it took.
    pub time: Duration,
    /// The first run that broke something.
    pub failure: Option<Failure>,
}

/// A run that broke something.
#[derive(Debug)]
pub struct Failure {
    /// Its seed.
    pub seed: u64,
    /// The shortest run of this seed that still shows it, in simulated seconds.
    pub seconds: u64,
    /// What it broke, with the operations that prove it.
    pub violations: Vec<Violation>,
}

impl Soak {
    /// Simulates until there were as many operations as are wanted, or something is broken. Each run ends
    /// with a word to whoever wants to see how it goes on.
    pub fn go(&self, progress: impl Fn(&Soaked) + Sync) -> Soaked {
        let started = Instant::now();
        let (next, stop) = (AtomicU64::new(self.seed), AtomicBool::new(false));
        let all = Mutex::new(Soaked::default());
        std::thread::scope(|threads| {
            for _ in 0..self.threads.max(1) {
                threads.spawn(|| {
                    while !stop.load(Ordering::Relaxed) {
                        let seed = next.fetch_add(1, Ordering::Relaxed);
                        let history = run(seed, self.flaw, true, self.seconds);
                        let violations = check(&history, &limits());
                        let failure = (!violations.is_empty()).then(|| {
                            self.shortened(Failure { seed, seconds: self.seconds, violations })
                        });
                        let mut all = all.lock().unwrap_or_else(PoisonError::into_inner);
                        all.runs += 1;
                        all.counts.add(&history.counts());
                        all.longest_outage_ms =
                            all.longest_outage_ms.max(history.longest_outage_ms());
                        all.time = started.elapsed();
                        if all.failure.is_none() {
                            all.failure = failure;
                        }
                        if all.failure.is_some() || all.operations() >= self.operations {
                            stop.store(true, Ordering::Relaxed);
                        }
                        progress(&all);
                    }
                });
            }
        });
        all.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// The shortest run with the same seed that breaks the same. Up to where it stops, a shorter run is the
    /// same as a longer one.
    fn shortened(&self, mut failure: Failure) -> Failure {
        let what = failure.violations[0].invariant;
        let (mut without, mut with) = (0, failure.seconds);
        while without + 1 < with {
            let seconds = u64::midpoint(without, with);
            let violations = check(&run(failure.seed, self.flaw, true, seconds), &limits());
            if violations.iter().any(|violation| violation.invariant == what) {
                with = seconds;
                failure = Failure { seconds, violations, ..failure };
            } else {
                without = seconds;
            }
        }
        failure
    }
}

impl Soaked {
    /// Operations on locks, whatever came of them.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.counts.answered + self.counts.unknown
    }
}

impl fmt::Display for Soaked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let faults: u64 = self.counts.faults.values().sum();
        writeln!(
            f,
            "{} operations in {} runs and {:.1?}, {} faults, longest outage {} ms",
            self.operations(),
            self.runs,
            self.time,
            faults,
            self.longest_outage_ms
        )?;
        write!(f, "{}", self.counts)?;
        match &self.failure {
            None => write!(f, "\nno violation"),
            Some(Failure { seed, seconds, violations }) => {
                write!(f, "\nseed {seed}, {seconds} s: {} violations", violations.len())?;
                violations.iter().take(3).try_for_each(|violation| write!(f, "\n{violation}"))
            }
        }
    }
}
