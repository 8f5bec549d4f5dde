//! Reduces a violation to the few operations that show it.

use syncguard_history::{History, Invariant, Violation, check, shrink};

use crate::plan::Plan;
use crate::run::{record, run};

/// The first window around the proof of a violation, in microseconds.
const AROUND: u64 = 10_000_000;

/// Repeats a plan until one of these invariants is broken, keeps the history this time, and reduces it to the fewest
/// operations that break the invariant. Checks all invariants if none is named.
#[must_use]
pub fn smallest(plan: &Plan, of: &[Invariant]) -> Option<Violation> {
    let is_one = |it: &Violation| of.is_empty() || of.contains(&it.invariant);
    let first = run(&Plan { stops_at_once: true, ..*plan }, |_| {});
    let lasted = if first.violations.iter().any(is_one) {
        first.lasted
    } else {
        // Another invariant was broken before.
        run(plan, |_| {}).lasted
    };
    let history = record(&Plan { lasts: Some(lasted), ..*plan });
    let limits = plan.limits();
    let violation = check(&history, &limits).into_iter().find(is_one)?;
    let shrunk = shrink(&around(&history, &violation), &violation, &limits);
    let same = |it: &Violation| it.invariant == violation.invariant;
    let shown = check(&shrunk, &limits).into_iter().find(same);
    // The window was too small.
    let shown = shown.or_else(|| {
        let shrunk = shrink(&history, &violation, &limits);
        check(&shrunk, &limits).into_iter().find(same)
    });
    Some(shown.unwrap_or(violation))
}

/// The events around a violation's proof. The rest of a long run does not matter.
fn around(history: &History, violation: &Violation) -> History {
    let times = violation.proof.iter().map(|operation| operation.called.steady);
    let (Some(first), Some(last)) = (times.clone().min(), times.max()) else {
        return history.clone();
    };
    let near = first.saturating_sub(AROUND)..=last + AROUND;
    let operations = history.operations.iter().filter(|it| near.contains(&it.called.steady));
    History { operations: operations.cloned().collect(), notes: history.notes.clone() }
}
