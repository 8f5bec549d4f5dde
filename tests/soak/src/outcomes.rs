//! The rules for recipes beside the twelve: two runs of the nightly job are its minimum hold apart,
//! no tick with attempts is left out, and each recipe was used.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::Duration;

use syncguard_history::{Answer, Call, Entry, Line};

use crate::recipes::{ACCOUNT, DOWNLOADS, INDEX, LEADER, MIN_HOLD, NIGHTLY, REBUILT};

/// The grants and ticks of the recipes.
#[derive(Default)]
pub(crate) struct Outcomes {
    /// Each acquire without an answer, by process and number.
    called: HashMap<(String, u64), Asked>,
    granted: HashMap<&'static str, u64>,
    /// The times of the call and of its answer for each run of the nightly job, by its fence.
    runs: BTreeMap<u64, (u64, u64)>,
    /// The locks of such runs without a further request, with their fences and the ends of their TTLs.
    fresh: HashMap<String, (u64, u64)>,
    /// The ticks with several attempts that have begun, by key.
    ticks: BTreeMap<String, BTreeSet<u64>>,
}

struct Asked {
    recipe: &'static str,
    lock: String,
    at: u64,
    ttl: u64,
}

const RECIPES: [&str; 6] = [LEADER, DOWNLOADS, NIGHTLY, ACCOUNT, INDEX, REBUILT];

impl Outcomes {
    pub(crate) fn note(&mut self, line: &Line) {
        let (process, now) = (&line.process, line.at.steady);
        match &line.entry {
            Entry::Called { number, call: Call::Acquire { key, lock, ttl } } => {
                if let Some(recipe) = RECIPES.into_iter().find(|recipe| key.starts_with(recipe)) {
                    let asked = Asked { recipe, lock: lock.clone(), at: now, ttl: *ttl * 1000 };
                    self.called.insert((process.clone(), *number), asked);
                }
            }
            Entry::Called { call: Call::Extend { lock, .. }, .. } => drop(self.fresh.remove(lock)),
            Entry::Called { call: Call::Release { lock }, .. } => {
                // A lock that is granted after its TTL is given back, and no work begins.
                if let Some((fence, over)) = self.fresh.remove(lock)
                    && now >= over
                {
                    self.runs.remove(&fence);
                }
            }
            Entry::Answered { number, answer } => {
                let asked = self.called.remove(&(process.clone(), *number));
                let (Some(asked), Answer::Acquired { fence, .. }) = (asked, answer) else { return };
                *self.granted.entry(asked.recipe).or_default() += 1;
                if asked.recipe == NIGHTLY {
                    self.runs.entry(*fence).or_insert((asked.at, now));
                    self.fresh.insert(asked.lock, (*fence, asked.at + asked.ttl));
                }
            }
            Entry::Ended { process } => self.called.retain(|(name, _), _| name != process),
            Entry::Tick { key, tick, attempts, .. } if *attempts > 1 => {
                self.ticks.entry(key.clone()).or_default().insert(*tick);
            }
            _ => {}
        }
    }

    /// The recipes that did too little in this many minutes.
    pub(crate) fn missing(&self, minutes: u64) -> Vec<String> {
        let ticks = self.ticks.values().map(|ticks| ticks.len() as u64).sum();
        let granted = RECIPES.map(|it| (it, self.granted.get(it).copied().unwrap_or_default()));
        let counts = granted.into_iter().chain([("ticks", ticks)]);
        let few = counts.filter(|(_, count)| *count <= minutes);
        few.map(|(what, count)| format!("{what}: only {count}")).collect()
    }

    /// The broken rules, if the clocks of the store differ from ours by this much.
    pub(crate) fn violations(&self, clocks: Duration) -> Vec<String> {
        let mut violations = Vec::new();
        let runs: Vec<_> = self.runs.iter().collect();
        for pair in runs.windows(2) {
            let ((before, (called, _)), (next, (_, answered))) = (pair[0], pair[1]);
            let apart = Duration::from_micros(answered.saturating_sub(*called));
            if apart + clocks < MIN_HOLD {
                violations.push(format!("{NIGHTLY}: runs {before} and {next} within {apart:?}"));
            }
        }
        for (key, ticks) in &self.ticks {
            let (Some(first), Some(last)) = (ticks.first(), ticks.last()) else { continue };
            // A new key begins with the next tick by the clock of each process, so its first ticks depend on the
            // clocks. From then on its counter passes a tick only once the tick is done.
            for tick in (first + 10..*last).filter(|tick| !ticks.contains(tick)) {
                violations.push(format!("{key}: tick {tick} has never begun"));
            }
        }
        violations
    }
}

#[cfg(test)]
mod tests {
    use syncguard_history::Moment;

    use super::*;

    fn note(outcomes: &mut Outcomes, millis: u64, entry: Entry) {
        let at = Moment { steady: millis * 1000, unix: millis };
        outcomes.note(&Line { at, process: "p".to_owned(), entry });
    }

    fn release(outcomes: &mut Outcomes, millis: u64, fence: u64) {
        let call = Call::Release { lock: fence.to_string() };
        note(outcomes, millis, Entry::Called { number: 100 + fence, call });
    }

    fn run(outcomes: &mut Outcomes, millis: u64, fence: u64) {
        let (key, lock) = (NIGHTLY.to_owned(), fence.to_string());
        let call = Call::Acquire { key, lock, ttl: 300 };
        note(outcomes, millis, Entry::Called { number: fence, call });
        let answer = Answer::Acquired { fence, expires_at: 0 };
        note(outcomes, millis + 5, Entry::Answered { number: fence, answer });
    }

    #[test]
    fn two_runs_within_the_minimum_hold_are_found() {
        let (mut outcomes, clocks) = (Outcomes::default(), Duration::from_millis(20));
        run(&mut outcomes, 0, 1);
        run(&mut outcomes, 1_290, 2);
        assert_eq!(outcomes.violations(clocks), [""; 0]);
        // A lock that is given back after its TTL was no run.
        let mut too_late = Outcomes::default();
        run(&mut too_late, 0, 1);
        release(&mut too_late, 300, 1);
        run(&mut too_late, 305, 2);
        assert_eq!(too_late.violations(clocks), [""; 0]);

        release(&mut outcomes, 1_589, 2);
        run(&mut outcomes, 2_560, 3);
        assert_eq!(outcomes.violations(clocks), ["nightly: runs 2 and 3 within 1.275s"]);
        assert!(outcomes.missing(0).iter().all(|it| !it.starts_with(NIGHTLY)));
        assert!(outcomes.missing(3).contains(&"nightly: only 3".to_owned()));
    }

    #[test]
    fn a_tick_that_is_left_out_is_found() {
        let mut outcomes = Outcomes::default();
        let tick = |outcomes: &mut Outcomes, tick| {
            let key = "tick-5".to_owned();
            note(outcomes, 0, Entry::Tick { key, tick, attempt: 1, attempts: 50 });
        };
        for number in (100..=120).filter(|number| ![101, 115].contains(number)) {
            tick(&mut outcomes, number);
        }
        let violations = outcomes.violations(Duration::ZERO);
        assert_eq!(violations, ["tick-5: tick 115 has never begun"]);
        tick(&mut outcomes, 115);
        assert_eq!(outcomes.violations(Duration::ZERO), [""; 0]);
    }
}
