//! A job on three machines with different clocks runs once in each period.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::recipes::{Stage, granted, on_each_store};
use syncguard_tests::fleet::stores::Store;

/// The same period as the workers'.
const PERIOD_MS: u64 = 2_000;
const PERIODS: usize = 5;

#[test]
fn a_cron_of_three_processes_runs_once_a_period() {
    on_each_store(run);
}

fn run(store: &Store, folder: &Path) -> Result<String> {
    let mut stage = Stage::new(folder)?;
    let mut workers = Vec::new();
    for skew in [0, 150, 400] {
        let rest = ["cron".to_owned(), "30000".to_owned(), skew.to_string()];
        workers.push(stage.start("cron", &store.direct(), &rest)?);
    }
    let enough = |history: &_| (granted(history).len() > PERIODS).then_some(());
    stage.until("runs", enough)?;
    // The slowest machine has had its chance in the last period, too.
    std::thread::sleep(Duration::from_millis(600));
    let grants = granted(&stage.history()?);
    stage.stop(workers)?;
    let mut runs: BTreeMap<u64, usize> = BTreeMap::new();
    for grant in &grants {
        *runs.entry(grant.at.unix / PERIOD_MS).or_default() += 1;
    }
    ensure!(runs.values().all(|runs| *runs == 1), "{runs:?}");
    let (first, last) = (runs.keys().next(), runs.keys().next_back());
    let periods = last.zip(first).map_or(0, |(last, first)| last - first + 1);
    ensure!(periods == runs.len() as u64, "a period without a run: {runs:?}");
    let who: std::collections::BTreeSet<_> = grants.iter().map(|it| &it.process).collect();
    Ok(format!("{} runs in {periods} periods, by {} processes", grants.len(), who.len()))
}
