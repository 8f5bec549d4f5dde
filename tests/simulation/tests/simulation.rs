//! A bounded part of the simulation, and a proof that it can fail.

#![allow(clippy::print_stdout, reason = "figures and seeds for a human eye")]

use std::collections::BTreeSet;
use std::fs::{read_dir, read_to_string};
use std::process::{Command, Stdio};
use std::time::Instant;

use clap::ValueEnum as _;
use syncguard_history::{Counts, Fault, Floors, Invariant, Random, Violation};
use syncguard_simulation::{Flaw, Plan, Store, name_of, record, run};
use syncguard_test_effort::either;
use syncguard_test_services::store::Store as Real;

const OPERATIONS: u64 = 12_000;

/// Runs of consecutive seeds, until each kind of fault has occurred, which chance decides.
fn holds(store: Store) {
    let (seed, started) = (Random::seed(), Instant::now());
    println!("SYNCGUARD_SEED={seed}");
    // The run must have done some work.
    let faults: &[Fault] = match store {
        Store::Memory => &[Fault::Stopped],
        _ => &[Fault::Killed, Fault::Stopped, Fault::Cut, Fault::Delayed, Fault::Late, Fault::Lost],
    };
    let faults = faults.iter().map(|fault| (*fault, 1)).collect();
    let operations = either(4_000, OPERATIONS);
    let answered = operations * 2 / 3;
    let (granted, written) = (operations / 60, operations / 120);
    let floors = Floors { answered, granted, written, rejected: 0, faults };
    let mut counts = Counts::default();
    for seed in (seed..).take(18) {
        let plan = Plan::new(store, seed, operations);
        let outcome = run(&plan, |_| {});
        let first = outcome.violations.first().map(ToString::to_string);
        assert_eq!(first, None, "again with: {}", plan.command());
        counts.add(&outcome.counts);
        let has_all = counts.ticks > 2 && counts.refused > 0 && counts.uses > 20;
        if floors.missing(&counts).is_empty() && has_all {
            break;
        }
    }
    println!("{store:?}, {:.1?}: {counts}", started.elapsed());
    assert_eq!(floors.missing(&counts), [""; 0], "from seed {seed} on");
    assert!(counts.ticks > 2 && counts.refused > 0 && counts.uses > 20, "from seed {seed} on");
}

/// A test for each fleet.
macro_rules! fleets {
    ($($test:ident $store:ident),*) => {
        const _: fn(Store) = |store| match store {
            $(Store::$store => (),)*
        };
        $(
            #[test]
            fn $test() {
                holds(Store::$store);
            }
        )*
    };
}

fleets!(
    the_memory_backend_holds Memory, redis_holds Redis, a_redis_cluster_holds RedisCluster, postgres_holds Postgres,
    postgres_behind_a_pooler_holds Pgbouncer, etcd_holds Etcd, firestore_holds Firestore,
    object_store_holds ObjectStore
);

#[test]
fn each_fleet_is_of_a_store() {
    let mut fleets: Vec<Store> = Store::all().collect();
    fleets.sort_by_key(|store| *store as u8);
    assert_eq!(fleets, Store::value_variants());
}

/// FLUSHALL takes locks and fences away. Service and clean-up go on.
#[test]
fn an_emptied_store_serves_on() {
    let seed = Random::seed();
    println!("SYNCGUARD_SEED={seed}");
    let operations = either(4_000, OPERATIONS);
    // Chance decides in which run the operator comes.
    for seed in (seed..).take(18) {
        let plan = Plan { empties: true, ..Plan::new(Store::Redis, seed, operations) };
        let outcome = run(&plan, |_| {});
        let goes_on = |it: &&Violation| {
            matches!(it.invariant, Invariant::BackInTime | Invariant::NothingLeft)
        };
        let stuck = outcome.violations.iter().find(goes_on);
        assert!(stuck.is_none(), "seed {seed}: {}", stuck.unwrap());
        if outcome.counts.faults.contains_key(&Fault::Emptied) {
            return;
        }
    }
    panic!("nobody emptied the store");
}

/// A patch that matches no script plants nothing.
#[test]
fn each_flaw_of_redis_changes_a_script() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../crates/syncguard-redis/src/lua");
    let files = read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let scripts: Vec<_> = files.map(|path| read_to_string(path).unwrap()).collect();
    for flaw in Flaw::all() {
        for (from, _) in flaw.patches() {
            assert!(scripts.iter().any(|script| script.contains(from)), "{flaw:?}: {from}");
        }
    }
}

/// Nobody would try a patch of another name.
#[test]
fn each_patch_of_the_library_is_a_flaw() {
    let files = read_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/patches")).unwrap();
    let names: BTreeSet<_> = files.map(|file| file.unwrap().file_name()).collect();
    let flaws = Flaw::all().iter().filter(|flaw| flaw.is_patch());
    let flaws = flaws.map(|flaw| format!("{}.patch", name_of(flaw)).into()).collect();
    assert_eq!(names, flaws);
}

/// `cargo xtask flaws` finds all flaws; this shows for several of each kind, which are found in a few runs, that the tests above
/// would fail.
#[test]
fn what_is_wrong_is_found() {
    // A quick run uses the same seeds each time, so that it takes the same time. Short runs find most flaws sooner than
    // long ones do.
    let seed = either(1, Random::seed());
    let operations = 2_500;
    println!("SYNCGUARD_SEED={seed}");
    for flaw in [
        Flaw::SecondHolder,
        Flaw::Orphans,
        Flaw::SlowRecovery,
        Flaw::RepeatedFence,
        Flaw::KeptTurn,
        Flaw::SharedGrant,
        Flaw::DeafLeader,
        Flaw::StaleGrant,
        Flaw::OnePermitMore,
        Flaw::LeakedTask,
        Flaw::SettledTooSoon,
        Flaw::ForgottenCopy,
        Flaw::UncheckedCounter,
        Flaw::UnmovedCounter,
        Flaw::UncheckedExtend,
        Flaw::WallTime,
        Flaw::NoMajority,
        Flaw::SwappedBounds,
        Flaw::ResentExtends,
        Flaw::ForgottenSending,
        Flaw::StaleWindow,
        Flaw::EndlessWindow,
    ] {
        for store in flaw.stores() {
            let finds = |seed| {
                let plan = Plan { flaw: Some(flaw), ..Plan::new(*store, seed, operations) };
                let outcome = run(&plan, |_| {});
                outcome.violations.iter().any(|it| flaw.breaks().contains(&it.invariant))
            };
            let started = Instant::now();
            let found = (seed..).take(160).find(|seed| finds(*seed));
            let found = found.unwrap_or_else(|| panic!("{flaw:?}, {store:?}: from seed {seed} on"));
            println!("{flaw:?}, {store:?}: seed {found}, {:.1?}", started.elapsed());
        }
    }
}

/// Flaws that show only if messages come late or twice are found by themselves, and not by that.
#[test]
fn late_messages_alone_break_nothing() {
    // A flaw of Redis: on other stores it has only the odds.
    for store in Store::all().filter(|store| !Store::of(Real::Redis).contains(store)) {
        for seed in 1..=either(1, 4) {
            let flaw = Some(Flaw::SettledTooSoon);
            let plan = Plan { flaw, keys: 8, ..Plan::new(store, seed, 3_000) };
            let outcome = run(&plan, |_| {});
            // A signal that is lost costs a waiter up to five seconds, and with these odds many are.
            let mut broken =
                outcome.violations.iter().filter(|it| it.invariant != Invariant::BackInTime);
            assert!(broken.next().is_none(), "{store:?}, seed {seed}: {:?}", outcome.violations);
        }
    }
}

/// A finding can be repeated, in this process and in others.
#[test]
fn the_same_seed_gives_the_same_history() {
    let operations = either(1_000, 6_000);
    for store in Store::all() {
        let plan = Plan::new(store, 7, operations);
        // Other tests have run in this process.
        let (first, again) = (elsewhere(&plan), here(&plan));
        assert!(first.len() as u64 > operations / 2, "{store:?}");
        let pairs = first.iter().zip(&again);
        let difference = pairs.enumerate().find(|(_, (one, other))| one != other);
        assert_eq!(difference, None, "{store:?}");
        assert_eq!(first.len(), again.len(), "{store:?}");
    }
    let [one, other] = [7, 8].map(|seed| here(&Plan::new(Store::Memory, seed, operations)));
    assert_ne!(one, other);
}

/// The operations of a run in this process.
fn here(plan: &Plan) -> Vec<String> {
    record(plan).operations.iter().map(|operation| format!("{operation:?}")).collect()
}

/// The operations of a run of another process.
fn elsewhere(plan: &Plan) -> Vec<String> {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("history");
    let store = plan.store.to_possible_value().expect("a name");
    let status = Command::new(env!("CARGO_BIN_EXE_simulate"))
        .args(["--store", store.get_name(), "--seed", &plan.seed.to_string()])
        .args(["--operations", &plan.operations.to_string(), "--history"])
        .arg(&path)
        .stdout(Stdio::null())
        .status();
    assert!(status.expect("a process").success());
    let text = read_to_string(path).expect("a history");
    text.lines().map(str::to_owned).collect()
}
