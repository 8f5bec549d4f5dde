//! Visits all worlds of a model.

use std::fmt;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::protocol::Protocol;
use crate::rules::Rules;
use crate::world::Store;

/// The result of a check.
#[derive(Clone, Debug)]
pub struct Report {
    /// The number of different worlds that were visited.
    pub worlds: usize,
    /// The number of steps.
    pub steps: usize,
    /// The longest path to a world, in steps.
    pub depth: usize,
    /// The time that it took.
    pub time: Duration,
    /// True if every world was visited.
    pub is_complete: bool,
    /// The broken rules, each with the steps that show it.
    pub broken: Vec<Breach>,
    /// Events that must happen in some world and do not: then the check proves nothing.
    pub missing: Vec<&'static str>,
}

/// A broken rule.
#[derive(Clone, Debug)]
pub struct Breach {
    /// The name of the rule.
    pub rule: &'static str,
    /// The number of steps that show it.
    pub steps: usize,
    /// The steps, and the world that they lead to.
    pub way: String,
}

/// Visits all worlds, or the worlds up to the first that breaks a rule.
#[must_use]
pub fn check<S: Store>(rules: Rules) -> Report {
    visit::<S>(rules, 2, HasDiscoveries::AnyFailures)
}

/// Visits all worlds, or the worlds up to the nearest that breaks this rule.
#[must_use]
pub fn find<S: Store>(rules: Rules, what: &'static str) -> Report {
    visit::<S>(rules, 1, HasDiscoveries::AnyOf([what].into()))
}

fn visit<S: Store>(rules: Rules, threads: usize, until: HasDiscoveries) -> Report {
    let started = Instant::now();
    let model = Protocol::<S> { rules, store: PhantomData };
    let checker = model.checker().threads(threads).finish_when(until).spawn_bfs().join();
    let discoveries = checker.discoveries();
    let properties = checker.model().properties();
    let (musts, somewheres): (Vec<_>, Vec<_>) =
        properties.iter().partition(|property| property.expectation.discovery_is_failure());
    let broken: Vec<_> = musts
        .iter()
        .filter_map(|property| {
            let path = discoveries.get(property.name)?;
            let steps = path.clone().into_actions();
            let last = path.last_state();
            let (rule, count) = (property.name, steps.len());
            Some(Breach { rule, steps: count, way: format!("{steps:#?}\n{last:#?}") })
        })
        .collect();
    let missing = somewheres.iter().map(|property| property.name);
    Report {
        worlds: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        time: started.elapsed(),
        is_complete: broken.is_empty(),
        broken,
        missing: missing.filter(|name| !discoveries.contains_key(name)).collect(),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { worlds, steps, depth, time, is_complete, .. } = self;
        let all = if *is_complete { "all " } else { "" };
        write!(f, "{all}{worlds} worlds, {steps} steps, {depth} deep, {time:.1?}")
    }
}
