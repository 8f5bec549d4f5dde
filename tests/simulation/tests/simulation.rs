//! A bounded part of the simulation, and what shows that it can fail.

#![allow(clippy::print_stdout, reason = "figures and seeds for a human eye")]

use std::time::Instant;

use syncguard_history::{Fault, Floors, Random};
use syncguard_simulation::{Flaw, Plan, Store, record, run};

const OPERATIONS: u64 = 12_000;

fn holds(store: Store) {
    let (seed, started) = (Random::seed(), Instant::now());
    println!("SYNCGUARD_SEED={seed}");
    let outcome = run(&Plan::new(store, seed, OPERATIONS), |_| {});
    println!("{store:?}, {:.1?}: {}", started.elapsed(), outcome.counts);
    assert_eq!(outcome.violated, 0, "seed {seed}: {}", outcome.violations[0]);
    // It cannot pass by doing nothing.
    let faults = [
        (Fault::Killed, 2),
        (Fault::Stopped, 1),
        (Fault::Cut, 2),
        (Fault::Delayed, 1),
        (Fault::Late, 10),
        (Fault::Lost, 12),
    ];
    let faults = faults.to_vec();
    let floors = Floors { answered: 8000, granted: 200, written: 100, rejected: 0, faults };
    assert_eq!(floors.missing(&outcome.counts), [""; 0], "seed {seed}");
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

/// All of them are found by `simulate --flaws`; this shows for several kinds that the test above would fail.
#[test]
fn what_is_wrong_is_found() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    for flaw in [Flaw::SecondHolder, Flaw::RepeatedFence, Flaw::KeptTurn, Flaw::DeafLeader] {
        let finds = |seed| {
            let plan = Plan { flaw: Some(flaw), ..Plan::new(flaw.store(), seed, OPERATIONS) };
            let outcome = run(&plan, |_| {});
            outcome.violations.iter().any(|it| flaw.breaks().contains(&it.invariant))
        };
        assert!((seed..).take(4).any(finds), "{flaw:?} was not found from seed {seed} on");
    }
}

/// What was found can be found again.
#[test]
fn the_same_seed_gives_the_same_history() {
    // The embedded backend takes the time of its beginning from the machine.
    for store in [Store::Redis, Store::RedisCluster, Store::Postgres] {
        let plan = Plan::new(store, 7, 2000);
        let [first, second] = [record(&plan), record(&plan)];
        let first_difference =
            first.operations.iter().zip(&second.operations).find(|(one, other)| one != other);
        assert_eq!(first_difference, None, "{store:?}");
        assert_eq!(first.operations.len(), second.operations.len(), "{store:?}");
        assert!(first.operations.len() > 1000);
        let other = record(&Plan::new(store, 8, 2000));
        assert_ne!(first.operations, other.operations, "{store:?}");
    }
}
