//! Checks with their figures.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use syncguard_model::{Flaw, Rules, Store, check, find};

pub(crate) const ONE_HOLDER: &str = "one holder at a time";
pub(crate) const FENCES_GROW: &str = "fences grow";
pub(crate) const NO_ORPHAN: &str = "no orphan";

/// A rule broken on purpose, and what that must break.
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

/// Visits all worlds: none is broken, and what matters happens in some of them.
pub(crate) fn holds<S: Store>(name: &str, rules: Rules) {
    let report = check::<S>(rules);
    println!("{name}: {report}");
    assert!(report.broken.is_empty(), "{}: {}", report.broken[0].0, report.broken[0].1);
    assert_eq!(report.missing, [""; 0], "a model that is too small proves nothing");
    assert!(report.is_complete);
}

/// Visits worlds until one is broken.
pub(crate) fn is_found<S: Store>(flawed: &Flawed) {
    let Flawed { flaw, rules, breaks } = flawed;
    let report = find::<S>(rules.with(*flaw), breaks);
    let found: Vec<_> = report.broken.iter().map(|(name, _)| *name).collect();
    println!("{flaw:?}: {found:?} after {report}");
    assert!(found.contains(breaks), "{flaw:?} does not break: {breaks}");
}

/// Visits all worlds: none is broken. For sizes in which not everything can happen that matters.
#[allow(dead_code, reason = "not every model needs it")]
pub(crate) fn never_breaks<S: Store>(name: &str, rules: Rules) {
    let report = check::<S>(rules);
    println!("{name}: {report}");
    assert!(report.broken.is_empty(), "{}: {}", report.broken[0].0, report.broken[0].1);
    assert!(report.is_complete);
}

/// Visits worlds until one is broken by no fault of this library's.
#[allow(dead_code, reason = "not every model needs it")]
pub(crate) fn is_broken<S: Store>(rules: Rules, breaks: &'static str) {
    let report = find::<S>(rules, breaks);
    println!("{breaks}: {report}");
    assert!(report.broken.iter().any(|(name, _)| *name == breaks));
}
