//! The starts of scheduled ticks.

use std::collections::{BTreeMap, HashMap};

use super::found::Found;
use super::millis;
use crate::event::Moment;
use crate::invariant::{Invariant, Limits};

/// The number of ticks of a key that are kept, the newest ones.
const KEPT: usize = 100;

/// The attempts of each tick of a key, and their starts.
#[derive(Debug, Default)]
pub(super) struct Ticks(HashMap<String, BTreeMap<u64, HashMap<u64, Moment>>>);

/// The start of an attempt of a tick.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) at: Moment,
    pub(super) tick: u64,
    pub(super) attempt: u64,
    pub(super) attempts: u64,
}

impl Ticks {
    pub(super) fn started(&mut self, key: &str, start: Start, limits: &Limits, found: &mut Found) {
        let Start { at, tick, attempt, attempts } = start;
        let mut broken = |what: String| {
            let what = format!("tick {tick} of {key:?} at {at:?}: {what}");
            found.add(Invariant::TicksStartOnce, what, []);
        };
        if !(1..=attempts).contains(&attempt) {
            broken(format!("attempt {attempt} of {attempts}"));
        }
        if at.unix + millis(limits.clocks) < tick * 1000 {
            broken("it starts before its time".to_owned());
        }
        let ticks = self.0.entry(key.to_owned()).or_default();
        if let Some(first) = ticks.entry(tick).or_default().insert(attempt, at) {
            broken(format!("attempt {attempt} has started before, at {first:?}"));
        }
        if ticks.len() > KEPT {
            ticks.pop_first();
        }
    }

    pub(super) fn retained(&self) -> usize {
        self.0.values().flat_map(BTreeMap::values).map(HashMap::len).sum()
    }
}
