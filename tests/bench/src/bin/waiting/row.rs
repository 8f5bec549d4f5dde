//! One row of a table: a contest of waiters in several processes.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::Result;

use crate::clock;
use crate::figures::Figures;
use crate::job::{Contest, Job, Outcome, Way};
use crate::process::Process;
use crate::stores::Measured;
use crate::targets::Target;

pub(crate) struct Row {
    pub(crate) name: &'static str,
    /// With which lock, for each process.
    pub(crate) ways: &'static [Way],
    /// In all processes together.
    pub(crate) waiters: usize,
    pub(crate) work: Duration,
    pub(crate) target: Option<Target>,
}

impl Row {
    /// Rows have 1 ms of work unless they say otherwise.
    pub(crate) const fn new(name: &'static str, ways: &'static [Way], waiters: usize) -> Self {
        Self { name, ways, waiters, work: Duration::from_millis(1), target: None }
    }

    pub(crate) const fn working(mut self, work: Duration) -> Self {
        self.work = work;
        self
    }

    pub(crate) const fn with_target(mut self, target: Option<Target>) -> Self {
        self.target = target;
        self
    }

    /// The figures, and the commands a hand-over.
    pub(crate) async fn measure(&self, on: Measured<'_>, time: Duration) -> Result<(Figures, f64)> {
        let Measured { store, counter } = on;
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        let key = format!("row {}", NUMBER.fetch_add(1, Ordering::Relaxed));
        let mut children = Vec::new();
        for way in self.ways {
            let contest = Contest {
                way: *way,
                key: key.clone(),
                waiters: self.waiters / self.ways.len(),
                work: self.work,
                time,
            };
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
        let figures = Figures::new(&outcomes, self.waiters, start, time)?;
        let commands = (counted + calls) as f64 / figures.hand_overs as f64;
        Ok((figures, commands))
    }
}

/// Which failures there were.
pub(crate) fn failures_as_text(failures: &BTreeMap<String, u64>) -> String {
    let all: Vec<String> =
        failures.iter().map(|(failure, count)| format!("{count} {failure}")).collect();
    all.join(", ")
}
