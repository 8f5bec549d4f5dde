//! Checks, and their figures.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use std::time::Duration;

use syncguard_model::{Flaw, Limits, Report, Rules, Store, check, find, search};

pub(crate) const ONE_HOLDER: &str = "one holder at a time";
pub(crate) const FENCES_GROW: &str = "fences grow";
pub(crate) const NO_ORPHAN: &str = "no orphan";
pub(crate) const TICK_STARTS_ONCE: &str = "no tick starts twice";

/// A rule that is broken on purpose, and the properties that this must break.
pub(crate) struct Flawed {
    pub(crate) flaw: Flaw,
    pub(crate) rules: Rules,
    pub(crate) breaks: &'static str,
}

impl Flawed {
    pub(crate) fn new(flaw: Flaw, breaks: &'static str) -> Self {
        Self { flaw, rules: Rules::default(), breaks }
    }
}

/// Visits all worlds: no rule is broken, and all required events happen in some of them.
#[allow(dead_code, reason = "not every model needs it")]
pub(crate) fn holds<S: Store>(name: &str, rules: Rules) {
    let report = never_breaks::<S>(name, rules);
    assert_eq!(report.missing, [""; 0], "a model that is too small proves nothing");
}

/// Visits all worlds: no rule is broken. For sizes that are too small for all required events.
pub(crate) fn never_breaks<S: Store>(name: &str, rules: Rules) -> Report {
    let report = visit::<S>(rules);
    println!("{name}: {report}");
    assert!(report.broken.is_empty(), "{}: {}", report.broken[0].rule, report.broken[0].way);
    assert!(report.is_complete);
    report
}

fn visit<S: Store>(rules: Rules) -> Report {
    let limits = Limits { threads: 2, time: Duration::from_secs(600), bytes: 2 << 30 };
    search::<S>(rules, limits, |worlds| println!("{worlds} worlds"))
}

/// Visits all worlds three times: without forgetting, with forgetting, and with forgetting in stateright's own
/// search, which has to find the same number.
pub(crate) fn holds_either_way<S: Store>(name: &str, rules: Rules) {
    let whole = never_breaks::<S>(name, Rules { is_reduced: false, ..rules });
    let reduced = never_breaks::<S>(name, rules);
    assert!(reduced.worlds < whole.worlds);
    let checked = check::<S>(rules);
    println!("{name}: {checked}");
    assert!(checked.is_complete && reduced.worlds == checked.worlds, "{checked}");
}

/// Visits worlds until a rule is broken. The same size without the broken rule is broken later or never.
pub(crate) fn is_found<S: Store>(flawed: &Flawed) {
    let Flawed { flaw, rules, breaks } = flawed;
    let report = find::<S>(rules.with(*flaw), breaks);
    let found = report.broken.iter().find(|breach| breach.rule == *breaks);
    println!("{flaw:?}: {:?} after {report}", found.map(|breach| breach.steps));
    let steps = found.map(|breach| breach.steps);
    let steps = steps.unwrap_or_else(|| panic!("{flaw:?} does not break: {breaks}"));
    let flawless = find::<S>(*rules, breaks);
    let sooner = flawless.broken.iter().find(|breach| breach.steps <= steps);
    assert!(sooner.is_none(), "{flaw:?}: {breaks} without it, after {flawless}");
}

/// Visits worlds until a rule is broken, without a planted violation.
#[allow(dead_code, reason = "not every model needs it")]
pub(crate) fn is_broken<S: Store>(rules: Rules, breaks: &'static str) {
    let report = find::<S>(rules, breaks);
    println!("{breaks}: {report}");
    assert!(report.broken.iter().any(|breach| breach.rule == breaks));
}
