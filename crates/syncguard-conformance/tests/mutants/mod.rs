//! The suite catches broken backends: a backend with one flaw fails the cases for that flaw.
//!
//! All of these backends are the same small store, [`store`], which passes every case without a flaw. [`flaws`] lists
//! the flaws and the cases that each must fail.

mod backend;
mod flaws;
mod gate;
mod inventory;
mod keys;
mod sending;
mod store;

use std::collections::HashSet;

use backend::Reference;
use flaws::{CAUGHT, Flaw};
use syncguard_conformance::{Suite, Verdict, cases, run};
use tokio::runtime::{Builder, Runtime};

/// One harness for all cases, side by side, as on a shared store.
#[tokio::test(start_paused = true)]
async fn without_a_flaw_everything_passes_and_applies() {
    let report = Suite::new().run(Reference::new(None)).await;
    assert!(report.is_success(), "{report}");
    assert!(report.results.iter().all(|(_, result)| *result == Ok(Verdict::Passed)), "{report}");
}

/// One flaw fails many cases, and the report says with which to start.
#[test]
fn the_report_starts_with_what_others_build_on() {
    const ASK_ON: [&str; 4] = [
        "locks_of_one_key_never_overlap",
        "locked_work_never_overlaps",
        "many_at_once_use_up_a_window_once",
        "no_look_shows_the_holder_of_another_lock",
    ];
    for (flaw, start) in [
        (Flaw::release_does_nothing, "release_frees_the_key"),
        (Flaw::drops_the_counter_on_release, "fences_grow_with_every_acquisition"),
        (Flaw::extend_does_nothing, "extend_prolongs_the_lock"),
    ] {
        // Without the cases whose contenders ask for three minutes of paused time.
        let suite = Suite::new().only(|case| !ASK_ON.contains(&case.name));
        let report = paused().block_on(suite.run(Reference::new(Some(flaw)))).to_string();
        let line = format!("start here, the others may follow from it:\n{start}: ");
        assert!(report.contains(&line), "{flaw:?}: {report}");
    }
}

/// A case that no broken backend fails proves nothing.
#[test]
fn every_case_catches_a_flaw() {
    // The core alone makes the printed types and the guards, so no backend can have these flaws.
    const GUARD_THE_CORE: [&str; 2] =
        ["debug_output_hides_key_and_lock_id", "a_grant_that_comes_too_late_is_given_back"];
    let caught: HashSet<&str> =
        CAUGHT.iter().flat_map(|(_, cases)| *cases).copied().chain(GUARD_THE_CORE).collect();
    let all: HashSet<&str> = cases().iter().map(|case| case.name).collect();
    assert_eq!(all.len(), cases().len(), "two cases with one name");
    let idle: Vec<_> = all.symmetric_difference(&caught).collect();
    assert!(idle.is_empty(), "without a flaw to catch, or not a case: {idle:?}");
}

/// Runs the cases that must notice a flaw, each on a store of its own.
fn is_caught(flaw: Flaw, by: &[&str]) {
    let runtime = paused();
    let missed: Vec<_> = by
        .iter()
        .filter(|case| {
            runtime.block_on(async { run(case, &Reference::new(Some(flaw))).await }).is_ok()
        })
        .collect();
    assert!(missed.is_empty(), "{flaw:?} was not noticed by {missed:?}");
}

fn paused() -> Runtime {
    Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime")
}
