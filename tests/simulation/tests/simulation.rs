//! A bounded part of the simulation, and a proof that it can fail.

#![allow(clippy::print_stdout, reason = "figures and seeds for a human eye")]

use std::time::Instant;

use syncguard_history::{Counts, Fault, Floors, Random};
use syncguard_simulation::{Flaw, Plan, Store, record, run};
use syncguard_test_effort::either;

const OPERATIONS: u64 = 12_000;

/// Runs of consecutive seeds, until each kind of fault has occurred, which chance decides.
fn holds(store: Store) {
    let (seed, started) = (Random::seed(), Instant::now());
    println!("SYNCGUARD_SEED={seed}");
    // The run must have done some work.
    let faults =
        [Fault::Killed, Fault::Stopped, Fault::Cut, Fault::Delayed, Fault::Late, Fault::Lost];
    let faults = faults.map(|fault| (fault, 1)).to_vec();
    let operations = either(4_000, OPERATIONS);
    let answered = operations * 2 / 3;
    let (granted, written) = (operations / 60, operations / 120);
    let floors = Floors { answered, granted, written, rejected: 0, faults };
    let mut counts = Counts::default();
    for seed in (seed..).take(18) {
        let outcome = run(&Plan::new(store, seed, operations), |_| {});
        assert_eq!(outcome.violated, 0, "seed {seed}: {}", outcome.violations[0]);
        counts.add(&outcome.counts);
        if floors.missing(&counts).is_empty() && counts.ticks > 2 && counts.refused > 0 {
            break;
        }
    }
    println!("{store:?}, {:.1?}: {counts}", started.elapsed());
    assert_eq!(floors.missing(&counts), [""; 0], "from seed {seed} on");
    assert!(counts.ticks > 2 && counts.refused > 0, "from seed {seed} on");
}

#[test]
fn the_embedded_backend_holds() {
    holds(Store::Memory);
}

#[test]
fn the_twin_of_redis_holds() {
    holds(Store::Redis);
}

#[test]
fn the_twin_of_a_redis_cluster_holds() {
    holds(Store::RedisCluster);
}

#[test]
fn the_twin_of_postgres_holds() {
    holds(Store::Postgres);
}

#[test]
fn the_twin_of_firestore_holds() {
    holds(Store::Firestore);
}

/// `simulate --flaws` finds all flaws; this shows for several kinds that the test above would fail.
#[test]
fn what_is_wrong_is_found() {
    // A quick run uses the same seeds each time, so that it takes the same time.
    let seed = either(1, Random::seed());
    println!("SYNCGUARD_SEED={seed}");
    for flaw in [
        Flaw::SecondHolder,
        Flaw::RepeatedFence,
        Flaw::KeptTurn,
        Flaw::DeafLeader,
        Flaw::SettledTooSoon,
        Flaw::UncheckedCounter,
        Flaw::HastyClients,
        Flaw::ForgottenSending,
        Flaw::EndlessWindow,
        Flaw::EarlyWindow,
    ] {
        let finds = |seed| {
            let plan = Plan { flaw: Some(flaw), ..Plan::new(flaw.store(), seed, OPERATIONS) };
            let outcome = run(&plan, |_| {});
            outcome.violations.iter().any(|it| flaw.breaks().contains(&it.invariant))
        };
        let started = Instant::now();
        let found = (seed..).take(40).find(|seed| finds(*seed));
        let found = found.unwrap_or_else(|| panic!("{flaw:?} was not found from seed {seed} on"));
        println!("{flaw:?}: seed {found}, {:.1?}", started.elapsed());
    }
}

/// A finding can be repeated.
#[test]
fn the_same_seed_gives_the_same_history() {
    let operations = either(1_000, 2_000);
    // The memory backend takes its start time from the machine.
    for store in [Store::Redis, Store::RedisCluster, Store::Postgres, Store::Firestore] {
        let plan = Plan::new(store, 7, operations);
        let [first, second] = [record(&plan), record(&plan)];
        let first_difference =
            first.operations.iter().zip(&second.operations).find(|(one, other)| one != other);
        assert_eq!(first_difference, None, "{store:?}");
        assert_eq!(first.operations.len(), second.operations.len(), "{store:?}");
        assert!(first.operations.len() as u64 > operations / 2);
        let other = record(&Plan::new(store, 8, operations));
        assert_ne!(first.operations, other.operations, "{store:?}");
    }
}
