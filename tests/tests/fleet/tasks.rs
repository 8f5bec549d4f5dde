//! The embedded backend is for one process, so its fleet are tasks: on a paused clock, with the same
//! work, the same record and the same invariants. And with flaws, each of which must be found.

use std::time::Instant;

use syncguard_tests::history::{Fault, Floors, History, Invariant, check};
use syncguard_tests::random::Random;
use syncguard_tests::simulation::{Flaw, Soak, limits, run};

#[test]
fn a_fleet_of_tasks_breaks_no_invariant() {
    let (seed, started) = (Random::seed(), Instant::now());
    println!("SYNCGUARD_SEED={seed}");
    let history = run(seed, None, true, 120);
    let counts = history.counts();
    println!("memory, {:.1?}: {counts}", started.elapsed());
    let violations = check(&history, &limits());
    assert!(violations.is_empty(), "seed {seed}: {}", violations[0]);
    let kinds = [Fault::Killed, Fault::Cut, Fault::Severed, Fault::Late, Fault::Doubled];
    let faults = kinds.map(|kind| (kind, 50)).to_vec();
    let floors = Floors { answered: 8000, granted: 600, written: 500, rejected: 10, faults };
    assert_eq!(floors.missing(&counts), [""; 0], "seed {seed}");
}

#[test]
fn every_flaw_is_found_by_the_invariant_it_breaks() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    for (flaw, invariant) in [
        (Flaw::SecondHolder, Invariant::HoldersTakeTurns),
        (Flaw::NoTolerance, Invariant::LocksTakeTurns),
        (Flaw::RepeatedFence, Invariant::FencesGrow),
        (Flaw::EndlessRelease, Invariant::ReleasedOnce),
        (Flaw::Undead, Invariant::OverForGood),
        (Flaw::Orphans, Invariant::BackInTime),
        (Flaw::LongLife, Invariant::BackInTime),
        (Flaw::SlowRecovery, Invariant::BackInTime),
        (Flaw::LeakedTasks, Invariant::NothingLeft),
    ] {
        finds(invariant, &format!("{flaw:?}"), seed, |seed| run(seed, Some(flaw), true, 20));
    }
    // The one that is not the backend's.
    let what = "a register without fences";
    finds(Invariant::NoLostUpdate, what, seed, |seed| run(seed, None, false, 20));
}

#[test]
fn what_is_wrong_with_late_requests_is_found_by_the_invariant_it_breaks() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    for (flaw, invariant) in [
        // A lock that nobody knows of any more.
        (Flaw::LateRequests, Invariant::BackInTime),
        // An end of the lock that its holder takes for outdated.
        (Flaw::BlindExtends, Invariant::HoldersTakeTurns),
        (Flaw::BlindExtends, Invariant::LocksTakeTurns),
    ] {
        finds(invariant, &format!("{flaw:?}"), seed, |seed| run(seed, Some(flaw), true, 60));
    }
}

/// One run may go by without the moment that a flaw needs; so many never do.
const RUNS: usize = 20;

fn finds(invariant: Invariant, what: &str, seed: u64, run: impl Fn(u64) -> History) {
    let started = Instant::now();
    for seed in (seed..).take(RUNS) {
        let violations = check(&run(seed), &limits());
        if let Some(found) = violations.iter().find(|it| it.invariant == invariant) {
            let (found, count) = (found.to_string(), violations.len());
            let first = found.lines().next().unwrap_or("");
            println!("{what}, seed {seed}, {:.1?}: {count} violations; {first}", started.elapsed());
            return;
        }
    }
    panic!("{what}: {invariant:?} was not found in {RUNS} runs from seed {seed} on");
}

/// Many runs, each checked and forgotten: memory stays as it is, however many there are.
#[test]
fn a_soak_checks_run_after_run() {
    let soak = Soak { seed: Random::seed(), operations: 30_000, threads: 2, ..Soak::default() };
    let soaked = soak.go(|_| {});
    println!("{soaked}");
    assert!(soaked.failure.is_none(), "{soaked}");
    assert!(soaked.operations() >= 30_000 && soaked.runs >= 3, "{soaked}");
    let kinds = [Fault::Killed, Fault::Cut, Fault::Severed, Fault::Late, Fault::Doubled];
    assert!(kinds.iter().all(|kind| soaked.counts.faults.contains_key(kind)), "{soaked}");
}

/// What a soak finds, it finds again from the seed, in as short a run as it could.
#[test]
fn a_soak_finds_a_flaw_and_says_how_to_see_it_again() {
    let flaw = Some(Flaw::RepeatedFence);
    let soak = Soak { seed: Random::seed(), operations: 1_000_000, flaw, ..Soak::default() };
    let soaked = soak.go(|_| {});
    let failure = soaked.failure.expect("a flaw that shows");
    assert_eq!(failure.violations[0].invariant, Invariant::FencesGrow);
    assert!(failure.seconds <= soak.seconds);
    let again = check(&run(failure.seed, flaw, true, failure.seconds), &limits());
    assert!(again.iter().any(|it| it.invariant == Invariant::FencesGrow));
}
