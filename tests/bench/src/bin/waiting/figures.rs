//! The results of a contest.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Result, ensure};

use crate::job::{Outcome, Turn};

/// Times in ms.
pub(crate) struct Figures {
    /// From the start of a release to the next grant, in any process.
    pub(crate) p50: f64,
    pub(crate) p99: f64,
    pub(crate) max: f64,
    /// The time of the release itself: the median.
    pub(crate) release: f64,
    /// The part of the time with a working holder.
    pub(crate) in_use: f64,
    pub(crate) longest_wait: f64,
    /// The longest wait divided by that of the last waiter in an ideal queue of all waiters: waiters x (work + p50).
    pub(crate) over_ideal: f64,
    /// The part of the turns that each process had.
    pub(crate) shares: Vec<f64>,
    /// The longest wait of each process.
    pub(crate) longest_waits: Vec<f64>,
    /// The number of turns of each process.
    pub(crate) turns: Vec<usize>,
    /// The number of failed waits of each process.
    pub(crate) failed: Vec<u64>,
    /// The number of hand-overs.
    pub(crate) hand_overs: usize,
    pub(crate) failures: BTreeMap<String, u64>,
}

impl Figures {
    /// Of all processes, in this time from the start on.
    pub(crate) fn new(
        outcomes: &[Outcome],
        waiters: usize,
        start: u64,
        time: Duration,
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

        // A turn counts if it began within the time; at its end, waiters only go away.
        let longest_wait = |of: &dyn Fn(usize) -> bool| {
            let of = turns.iter().filter(|(process, _)| of(*process));
            ms(of.map(|(_, turn)| turn.granted - turn.requested).max().unwrap_or(0))
        };
        let longest = longest_wait(&|_| true);
        let longest_waits = (0..outcomes.len()).map(|one| longest_wait(&|of| of == one)).collect();
        turns.retain(|(_, turn)| turn.granted < end);
        ensure!(turns.len() > 2, "the lock did not change hands: {failures:?}");
        let works = turns.iter().map(|(_, turn)| turn.release_begun.min(end) - turn.granted);
        let in_use = works.clone().sum::<u64>() as f64 / time.as_nanos() as f64;
        let hand_overs: Vec<u64> =
            hand_overs(&turns).map(|(one, next)| next.granted - one.release_begun).collect();
        let (hand_overs, works) = (Sorted::new(hand_overs), Sorted::new(works.collect()));
        let p50 = hand_overs.quantile(0.5);
        let releases = turns.iter().map(|(_, turn)| turn.release_done - turn.release_begun);
        let own = |process| turns.iter().filter(|(one, _)| *one == process).count();
        let share = |process| own(process) as f64 / turns.len() as f64;
        Ok(Self {
            p50,
            p99: hand_overs.quantile(0.99),
            max: hand_overs.quantile(1.0),
            release: Sorted::new(releases.collect()).quantile(0.5),
            in_use,
            longest_wait: longest,
            over_ideal: longest / (waiters as f64 * (works.quantile(0.5) + p50)),
            shares: (0..outcomes.len()).map(share).collect(),
            longest_waits,
            turns: (0..outcomes.len()).map(own).collect(),
            failed: outcomes.iter().map(|outcome| outcome.failures.values().sum()).collect(),
            hand_overs: hand_overs.0.len(),
            failures,
        })
    }
}

/// Two turns of the same key, one after the other.
fn hand_overs(turns: &[(usize, Turn)]) -> impl Iterator<Item = (&Turn, &Turn)> {
    let pairs = turns.windows(2).map(|pair| (&pair[0].1, &pair[1].1));
    pairs.filter(|(one, next)| one.key == next.key)
}

/// Times in ns.
pub(crate) struct Sorted(Vec<u64>);

impl Sorted {
    pub(crate) fn new(mut times: Vec<u64>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// In ms.
    pub(crate) fn quantile(&self, part: f64) -> f64 {
        let last = self.0.len().saturating_sub(1);
        ms(self.0.get((last as f64 * part) as usize).copied().unwrap_or(0))
    }
}

fn ms(nanos: u64) -> f64 {
    nanos as f64 / 1e6
}
