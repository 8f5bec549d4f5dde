//! One row of a table: a contest of waiters in several processes.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_bench::{Counter, clock};

use crate::figures::Figures;
use crate::job::{Contest, Job, Outcome, Spread};
use crate::process::Process;

/// Waiters of this library that want one key without a rest.
pub(crate) struct Row {
    pub(crate) name: &'static str,
    pub(crate) processes: usize,
    /// In all processes together.
    pub(crate) waiters: usize,
    /// The work of each holder in ms.
    pub(crate) work: u64,
}

/// A store, and the counter of its commands.
#[derive(Clone, Copy)]
pub(crate) struct Measured<'a> {
    /// Its URL.
    pub(crate) store: &'a str,
    pub(crate) counter: &'a Counter,
}

impl Row {
    pub(crate) async fn measure(&self, on: Measured<'_>, time: Duration) -> Result<Figures> {
        let work = Spread::millis(self.work, self.work);
        let contest = Contest {
            waiters: self.waiters / self.processes,
            keys: fresh_keys(1),
            work,
            time,
            ..Contest::default()
        };
        measure(on, vec![contest; self.processes]).await
    }
}

/// This many unused keys.
pub(crate) fn fresh_keys(keys: usize) -> Vec<String> {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    let row = NUMBER.fetch_add(1, Ordering::Relaxed);
    (0..keys).map(|key| format!("row {row} key {key}")).collect()
}

/// Runs a process for each contest.
pub(crate) async fn measure(on: Measured<'_>, contests: Vec<Contest>) -> Result<Figures> {
    let Measured { store, counter } = on;
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
    Figures::new(&outcomes, start, time, counted)
}
