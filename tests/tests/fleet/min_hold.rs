//! A job on three machines with different clocks runs once in each period.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_history::{Answer, Call, History, Operation};

use crate::fleet::recipes::{Stage, on_each_store};
use syncguard_tests::fleet::stores::Store;

/// The same period and minimum hold as the workers', in milliseconds.
const PERIOD: u64 = 2_000;
const MIN_HOLD: u64 = 1_500;
/// How late the clock of each machine is, in milliseconds.
const SKEWS: [u64; 3] = [0, 150, 400];
/// A machine's try and the release of its lock are answered within this time from the start of its period, unless the
/// machine is busy. Then the last machine's next try finds the key free again, 200 ms after the minimum hold.
const PROMPT: u64 = 300;
/// The largest difference between the store's clock and ours.
const CLOCKS: u64 = 20;
const PERIODS: usize = 5;

#[test]
fn a_cron_of_three_processes_runs_once_a_period() {
    on_each_store(run);
}

fn run(store: &Store, folder: &Path) -> Result<String> {
    let mut stage = Stage::new(folder)?;
    let (mut workers, mut skews) = (Vec::new(), BTreeMap::new());
    for skew in SKEWS {
        let rest = ["cron".to_owned(), "30000".to_owned(), skew.to_string()];
        let worker = stage.start("cron", &store.direct(), &rest)?;
        skews.insert(worker.name.clone(), skew);
        workers.push(worker);
    }
    stage.until("periods without a delay", |history| {
        (judged(&tries(history, &skews)).len() >= PERIODS).then_some(())
    })?;
    stage.stop(workers)?;
    let history = stage.history()?;
    let tries = tries(&history, &skews);
    let periods = judged(&tries);
    ensure!(periods.len() >= PERIODS, "only {periods:?}");
    ensure!(periods.values().all(|runs| *runs == 1), "{periods:?}");

    // A machine may be slow, but no run comes earlier than the minimum hold allows.
    let mut runs: Vec<_> = tries.iter().filter(|it| it.grant.is_some()).collect();
    runs.sort_by_key(|it| it.grant.map(|grant| grant.fence));
    for pair in runs.windows(2) {
        let (called, granted) = (pair[0].called, pair[1].grant.map_or(0, |grant| grant.at));
        let apart = Duration::from_micros(granted.saturating_sub(called));
        let least = Duration::from_millis(MIN_HOLD - CLOCKS);
        ensure!(apart >= least, "two runs within {apart:?}: {pair:?}");
    }
    let who: BTreeSet<_> = runs.iter().map(|it| &it.process).collect();
    let (all, without) = (runs.len(), periods.len());
    Ok(format!("{all} runs by {} processes, {without} periods without a delay", who.len()))
}

/// A machine's try in a period.
#[derive(Debug)]
struct Try {
    process: String,
    /// The number of the period, by the machine's clock.
    period: u64,
    /// The time of the call, in microseconds.
    called: u64,
    grant: Option<Grant>,
    /// Each operation of this try was answered in time; after a grant, the release too.
    is_prompt: bool,
}

#[derive(Clone, Copy, Debug)]
struct Grant {
    fence: u64,
    /// The time of the answer, in microseconds.
    at: u64,
}

/// Every try of the processes with these skews.
fn tries(history: &History, skews: &BTreeMap<String, u64>) -> Vec<Try> {
    let mut tries = Vec::new();
    for acquire in &history.operations {
        let Call::Acquire { lock, .. } = &acquire.call else { continue };
        let Some(skew) = skews.get(&acquire.process) else { continue };
        let period = acquire.called.unix.saturating_sub(*skew) / PERIOD;
        let until = period * PERIOD + skew + PROMPT;
        let grant = match &acquire.answered {
            Some((at, Answer::Acquired { fence, .. })) => {
                Some(Grant { fence: *fence, at: at.steady })
            }
            _ => None,
        };
        let ends: Vec<_> = history.operations.iter().filter(|it| ends(it, lock)).collect();
        let is_given_back = grant.is_none() || !ends.is_empty();
        let mut all = ends.into_iter().chain([acquire]);
        let is_prompt = is_given_back && all.all(|it| is_answered_by(it, until));
        let (process, called) = (acquire.process.clone(), acquire.called.steady);
        tries.push(Try { process, period, called, grant, is_prompt });
    }
    tries
}

/// Returns true for an operation that gives this lock back, or lets it expire.
fn ends(operation: &Operation, of: &str) -> bool {
    matches!(&operation.call, Call::Extend { lock, .. } | Call::Release { lock } if lock == of)
}

fn is_answered_by(operation: &Operation, until: u64) -> bool {
    match &operation.answered {
        None | Some((_, Answer::Failed { .. } | Answer::Dropped)) => false,
        Some((at, _)) => at.unix <= until,
    }
}

/// The number of runs in each period that nothing delayed: all tries were prompt, and so were those since the last
/// run before, whose lock could otherwise still be held.
fn judged(tries: &[Try]) -> BTreeMap<u64, usize> {
    let mut judged = BTreeMap::new();
    let periods: BTreeSet<_> = tries.iter().map(|it| it.period).collect();
    for period in periods {
        let earlier = tries.iter().filter(|it| it.period < period && it.grant.is_some());
        let Some(last) = earlier.map(|it| it.period).max() else { continue };
        let mut since = tries.iter().filter(|it| (last..=period).contains(&it.period));
        let of_it: Vec<_> = tries.iter().filter(|it| it.period == period).collect();
        if of_it.len() == SKEWS.len() && since.all(|it| it.is_prompt) {
            judged.insert(period, of_it.iter().filter(|it| it.grant.is_some()).count());
        }
    }
    judged
}
