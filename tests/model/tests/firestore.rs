//! Firestore: every order of events, and each rule broken once.

use crate::common::{
    FENCES_GROW, Flawed, NO_ORPHAN, ONE_HOLDER, TICK_STARTS_ONCE, holds, is_found,
};
use syncguard_model::{Budget, Firestore, Flaw, Rules, Ticks};

/// With two acquisitions each. `cargo run --release -p syncguard-model -- all` checks larger sizes.
const WHOLE: Budget = Budget { extends: 1, lost: 1, crashes: 1, copies: 0, cleanings: 0 };
const SMALL: Budget = Budget { crashes: 0, ..WHOLE };

fn rules(budget: Budget, drift: Ticks) -> Rules {
    Rules { acquisitions: 1, budget, drift, ..Rules::default() }
}

#[test]
fn nothing_breaks_the_commits() {
    holds::<Firestore>("Firestore", Rules { acquisitions: 2, ..rules(WHOLE, 0) });
}

/// Clocks may differ by as much as the tolerance.
#[test]
fn nothing_breaks_the_commits_of_clients_whose_clocks_differ() {
    let budget = Budget { cleanings: 1, ..WHOLE };
    holds::<Firestore>("Firestore, clocks apart", rules(budget, 1));
}

/// A version never comes back, so any number of extends is allowed here.
#[test]
fn nothing_breaks_the_commits_of_several_extends() {
    holds::<Firestore>("Firestore, extends", rules(Budget { extends: 3, ..SMALL }, 0));
}

#[test]
fn nothing_is_lost_by_forgetting() {
    let crashes = Budget { extends: 0, lost: 0, crashes: 1, cleanings: 1, ..SMALL };
    crate::common::holds_either_way::<Firestore>("Firestore, a crash", rules(crashes, 0));
    let apart = Budget { lost: 0, ..SMALL };
    crate::common::holds_either_way::<Firestore>("Firestore, clocks apart", rules(apart, 1));
}

#[test]
fn every_broken_rule_is_found() {
    let flawed = |flaw, breaks| Flawed { rules: rules(SMALL, 0), ..Flawed::new(flaw, breaks) };
    let nothing_lost = rules(Budget { lost: 0, ..SMALL }, 0);
    let extends = rules(Budget { extends: 2, ..SMALL }, 0);
    let cleans = rules(Budget { lost: 0, cleanings: 1, ..SMALL }, 0);
    let apart = rules(Budget { lost: 0, ..SMALL }, 1);
    for flawed in [
        flawed(Flaw::CounterUnguarded, FENCES_GROW),
        flawed(Flaw::LockUnguarded, ONE_HOLDER),
        Flawed { rules: nothing_lost, ..flawed(Flaw::ReleaseUnguarded, ONE_HOLDER) },
        flawed(Flaw::CounterLeftAlone, NO_ORPHAN),
        flawed(Flaw::NoCleanUp, NO_ORPHAN),
        Flawed { rules: nothing_lost, ..flawed(Flaw::PromiseFromReply, ONE_HOLDER) },
        Flawed { rules: nothing_lost, ..flawed(Flaw::OptimisticExtend, ONE_HOLDER) },
        Flawed { rules: extends, ..flawed(Flaw::BlindExtend, ONE_HOLDER) },
        Flawed { rules: cleans, ..flawed(Flaw::UnguardedCleanUp, ONE_HOLDER) },
        Flawed { rules: apart, ..flawed(Flaw::NoTolerance, ONE_HOLDER) },
    ] {
        is_found::<Firestore>(&flawed);
    }
}

/// Required by the contract: see `drift.rs` of the backend.
#[test]
fn clocks_that_differ_by_more_than_the_tolerance_make_two_holders() {
    crate::common::is_broken::<Firestore>(rules(Budget { lost: 0, ..SMALL }, 2), ONE_HOLDER);
}

/// Three processes ask for one tick, some more than once.
#[test]
fn no_tick_starts_twice() {
    let budget = Budget { extends: 0, ..WHOLE };
    let tick = Rules { is_one_tick: true, acquisitions: 2, budget, ..Rules::default() };
    crate::common::never_breaks::<Firestore>("Firestore, one tick", tick);
    for flaw in [Flaw::WindowIgnored, Flaw::CounterUnguarded] {
        is_found::<Firestore>(&Flawed { rules: tick, ..Flawed::new(flaw, TICK_STARTS_ONCE) });
    }
}
