//! One row of a table: a contest of waiters in several processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};

use crate::clock;
use crate::figures::Figures;
use crate::job::{Contest, Job, Outcome, Spread, Way};
use crate::process::Process;
use crate::stores::Measured;
use crate::targets::Target;

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// The lock of each process.
    pub(crate) ways: &'static [Way],
    /// In all processes together.
    pub(crate) waiters: usize,
    pub(crate) work: Spread,
    pub(crate) target: Option<Target>,
}

impl Row {
    /// Rows have 1 ms of work unless they say otherwise.
    pub(crate) const fn new(name: &'static str, ways: &'static [Way], waiters: usize) -> Self {
        Self { name, ways, waiters, work: Spread::millis(1, 1), target: None }
    }

    pub(crate) const fn working(mut self, work: Duration) -> Self {
        self.work = Spread::exactly(work);
        self
    }

    pub(crate) const fn with_target(mut self, target: Option<Target>) -> Self {
        self.target = target;
        self
    }

    /// The figures, and the commands a hand-over.
    pub(crate) async fn measure(&self, on: Measured<'_>, time: Duration) -> Result<(Figures, f64)> {
        // The first process has the key to itself for 0.9 s, so fewer turns say little about the shares.
        let time = time.max(self.work.most * 300);
        let keys = fresh_keys(1);
        let contest = |way: &Way| Contest {
            way: *way,
            waiters: self.waiters / self.ways.len(),
            latency: Duration::ZERO,
            keys: keys.clone(),
            work: self.work,
            rest: Spread::NONE,
            time,
        };
        measure(on, self.ways.iter().map(contest).collect()).await
    }

    /// The run of three whose longest wait is neither the longest nor the shortest.
    pub(crate) async fn median(&self, on: Measured<'_>, time: Duration) -> Result<(Figures, f64)> {
        let mut runs = Vec::new();
        for _ in 0..3 {
            runs.push(self.measure(on, time).await?);
        }
        runs.sort_by(|one, other| one.0.over_ideal.total_cmp(&other.0.over_ideal));
        Ok(runs.swap_remove(1))
    }
}

/// This many unused keys.
pub(crate) fn fresh_keys(keys: usize) -> Vec<String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let row = NUMBER.fetch_add(1, Ordering::Relaxed);
    (0..keys).map(|key| format!("row {row} key {key}")).collect()
}

/// Runs a process for each contest. The figures, and the commands a hand-over.
pub(crate) async fn measure(on: Measured<'_>, contests: Vec<Contest>) -> Result<(Figures, f64)> {
    let Measured { store, counter } = on;
    let waiters = contests.iter().map(|contest| contest.waiters).sum();
    let time = contests.first().context("a contest of nobody")?.time;
    let mut children = Vec::new();
    for contest in contests {
        children.push(Process::start(store, &Job::Contest(contest))?);
    }
    for child in &mut children {
        child.wait_until_ready()?;
    }
    let start = clock::now() + 200_000_000;
    for child in &mut children {
        child.begin_at(start)?;
    }
    clock::until(start).await?;
    let before = counter.read().await?;
    clock::until(start + u64::try_from(time.as_nanos())?).await?;
    let counted = counter.read().await? - before;
    let outcomes: Vec<Outcome> = tokio::task::block_in_place(|| {
        children.iter_mut().map(Process::answer).collect::<Result<_>>()
    })?;
    let calls = outcomes.iter().map(|outcome| outcome.calls).sum::<u64>();
    let figures = Figures::new(&outcomes, waiters, start, time)?;
    let commands = (counted + calls) as f64 / figures.hand_overs as f64;
    Ok((figures, commands))
}

/// The kinds of failures.
pub(crate) fn failures_as_text(failures: &BTreeMap<String, u64>) -> String {
    let all: Vec<String> =
        failures.iter().map(|(failure, count)| format!("{count} {failure}")).collect();
    all.join(", ")
}
