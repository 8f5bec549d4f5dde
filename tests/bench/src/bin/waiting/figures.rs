//! The results of a contest.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_bench::sorted::{Sorted, ms};

use crate::job::{Outcome, Turn};

/// Times in ms.
pub(crate) struct Figures {
    /// From the start of a release to the next grant, in any process.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    /// The part of the time with a working holder.
    pub(crate) in_use: f64,
    /// Commands a hand-over.
    pub(crate) commands: f64,
    /// The part of the turns that each process had.
    pub(crate) shares: Vec<f64>,
    /// The longest wait of each process.
    pub(crate) longest_waits: Vec<f64>,
    /// The number of turns of each process.
    pub(crate) turns: Vec<usize>,
    /// The number of failed waits of each process.
    pub(crate) failed: Vec<u64>,
    pub(crate) failures: BTreeMap<String, u64>,
}

impl Figures {
    /// Of all processes, in this time from the start on. `counted` are the commands that the server counted.
    pub(crate) fn new(
        outcomes: &[Outcome],
        start: u64,
        time: Duration,
        counted: u64,
    ) -> Result<Self> {
        let end = start + u64::try_from(time.as_nanos())?;
        let mut failures = BTreeMap::new();
        let mut turns: Vec<(usize, Turn)> = Vec::new();
        for (process, outcome) in outcomes.iter().enumerate() {
            turns.extend(outcome.turns.iter().map(|turn| (process, *turn)));
            for (failure, count) in &outcome.failures {
                *failures.entry(failure.clone()).or_default() += count;
            }
        }
        // In the order of each key.
        turns.sort_by_key(|(_, turn)| (turn.key, turn.granted));
        for (one, next) in hand_overs(&turns) {
            ensure!(next.granted >= one.release_begun, "two holders at once");
        }
        let longest_wait = |process| {
            let own = turns.iter().filter(|(of, _)| *of == process);
            ms(own.map(|(_, turn)| turn.granted - turn.requested).max().unwrap_or(0))
        };
        let longest_waits: Vec<f64> = (0..outcomes.len()).map(longest_wait).collect();

        // A turn counts if it began within the time; at its end, waiters only go away.
        turns.retain(|(_, turn)| turn.granted < end);
        // A run for a moment shows only that all of it works.
        let is_short = time < Duration::from_secs(1);
        ensure!(is_short || turns.len() > 2, "the lock did not change hands: {failures:?}");
        let works = turns.iter().map(|(_, turn)| turn.release_begun.min(end) - turn.granted);
        let in_use = works.sum::<u64>() as f64 / time.as_nanos() as f64;
        let hand_overs: Vec<u64> =
            hand_overs(&turns).map(|(one, next)| next.granted - one.release_begun).collect();
        let commands = counted as f64 / hand_overs.len() as f64;
        let hand_overs = Sorted::new(hand_overs);
        let own = |process| turns.iter().filter(|(of, _)| *of == process).count();
        let of_each: Vec<usize> = (0..outcomes.len()).map(own).collect();
        Ok(Self {
            p50: hand_overs.quantile(0.5),
            p99: hand_overs.quantile(0.99),
            in_use,
            commands,
            shares: of_each.iter().map(|own| *own as f64 / turns.len() as f64).collect(),
            longest_waits,
            turns: of_each,
            failed: outcomes.iter().map(|outcome| outcome.failures.values().sum()).collect(),
            failures,
        })
    }
}

/// Two turns of the same key, one after the other.
fn hand_overs(turns: &[(usize, Turn)]) -> impl Iterator<Item = (&Turn, &Turn)> {
    let pairs = turns.windows(2).map(|pair| (&pair[0].1, &pair[1].1));
    pairs.filter(|(one, next)| one.key == next.key)
}
