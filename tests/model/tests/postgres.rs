//! PostgreSQL: every order of events, statement by statement, and each rule broken once.

use crate::common::{FENCES_GROW, Flawed, NO_ORPHAN, ONE_HOLDER, TICK_STARTS_ONCE, is_found};
use syncguard_model::{Budget, Flaw, Postgres, Rules};

/// With two acquisitions each. `cargo run --release -p syncguard-model -- all` adds a clean-up.
const WHOLE: Budget = Budget { extends: 1, lost: 1, crashes: 1, copies: 0, cleanings: 0 };
/// An event that has to happen in a model, or the model proves nothing about it.
const OUTDATED: &str = "an extend is outdated by a later one";
const SMALL: Budget = Budget { crashes: 0, ..WHOLE };

fn rules(budget: Budget, typescript: usize) -> Rules {
    Rules { acquisitions: 1, budget, typescript, ..Rules::default() }
}

#[test]
fn nothing_breaks_the_statements() {
    let report = crate::common::never_breaks::<Postgres>(
        "PostgreSQL",
        Rules { acquisitions: 2, ..rules(WHOLE, 0) },
    );
    // The event takes several extends.
    assert_eq!(report.missing, [OUTDATED]);
}

#[test]
fn nothing_breaks_the_statements_beside_a_client_of_the_typescript_library() {
    let report =
        crate::common::never_breaks::<Postgres>("PostgreSQL and TypeScript", rules(WHOLE, 1));
    assert_eq!(report.missing, [OUTDATED]);
}

#[test]
fn nothing_is_lost_by_forgetting() {
    let crashes = Budget { extends: 0, lost: 0, crashes: 1, cleanings: 1, ..SMALL };
    crate::common::holds_either_way::<Postgres>("PostgreSQL, a crash", rules(crashes, 0));
    let mixed = Budget { lost: 0, extends: 1, ..SMALL };
    crate::common::holds_either_way::<Postgres>("PostgreSQL and TypeScript", rules(mixed, 1));
}

/// An extend states the expected expiry. Later extends may bring back that expiry, and then it applies again.
#[test]
fn an_extend_that_is_late_shortens_nothing_its_holder_relies_on() {
    let budget = Budget { extends: 3, crashes: 0, ..SMALL };
    let one = Rules { acquisitions: 1, ..rules(budget, 0) };
    let report = crate::common::never_breaks::<Postgres>("PostgreSQL, an extend that is late", one);
    assert!(!report.missing.contains(&OUTDATED), "{:?}", report.missing);
    let flaw = Flaw::TrustsLastExtend;
    is_found::<Postgres>(&Flawed { rules: one, ..Flawed::new(flaw, ONE_HOLDER) });
}

#[test]
fn every_broken_rule_is_found() {
    let lost = Budget { extends: 0, ..SMALL };
    let flawed = |flaw, breaks| Flawed { rules: rules(lost, 0), ..Flawed::new(flaw, breaks) };
    let nothing_lost = rules(Budget { lost: 0, ..SMALL }, 0);
    let extends = rules(Budget { extends: 2, ..SMALL }, 0);
    let cleans = rules(Budget { lost: 0, cleanings: 1, ..SMALL }, 0);
    let mixed = rules(Budget { lost: 0, ..SMALL }, 1);
    for flawed in [
        flawed(Flaw::NoDeadline, NO_ORPHAN),
        flawed(Flaw::StaleNow, NO_ORPHAN),
        flawed(Flaw::SettledTooSoon, NO_ORPHAN),
        flawed(Flaw::OneLook, NO_ORPHAN),
        flawed(Flaw::NotAlone, NO_ORPHAN),
        flawed(Flaw::NoCleanUp, NO_ORPHAN),
        flawed(Flaw::ForgottenDoubt, NO_ORPHAN),
        flawed(Flaw::NotIdempotent, NO_ORPHAN),
        flawed(Flaw::PromiseFromLastSending, ONE_HOLDER),
        Flawed { rules: nothing_lost, ..flawed(Flaw::PromiseFromReply, ONE_HOLDER) },
        Flawed { rules: nothing_lost, ..flawed(Flaw::OptimisticExtend, ONE_HOLDER) },
        Flawed { rules: nothing_lost, ..flawed(Flaw::ReleaseOfAnyone, ONE_HOLDER) },
        Flawed { rules: extends, ..flawed(Flaw::BlindExtend, ONE_HOLDER) },
        Flawed { rules: extends, ..flawed(Flaw::SameExpiry, ONE_HOLDER) },
        Flawed { rules: cleans, ..flawed(Flaw::UnguardedCleanUp, ONE_HOLDER) },
        Flawed { rules: cleans, ..flawed(Flaw::CounterCleanedUp, FENCES_GROW) },
        Flawed { rules: mixed, ..flawed(Flaw::MissingRowLock, ONE_HOLDER) },
    ] {
        is_found::<Postgres>(&flawed);
    }
}

/// Only clients of the TypeScript library: it reads without a lock, and overwrites the row in its current state.
#[test]
fn two_clients_of_the_typescript_library_can_hold_one_lock() {
    crate::common::is_broken::<Postgres>(rules(Budget { lost: 0, ..SMALL }, 2), ONE_HOLDER);
}

/// Three processes ask for one tick, some more than once.
#[test]
fn no_tick_starts_twice() {
    let budget = Budget { extends: 0, ..WHOLE };
    let tick = Rules { is_one_tick: true, acquisitions: 2, budget, ..Rules::default() };
    crate::common::never_breaks::<Postgres>("PostgreSQL, one tick", tick);
    for flaw in [Flaw::WindowIgnored, Flaw::CounterNotCompared] {
        is_found::<Postgres>(&Flawed { rules: tick, ..Flawed::new(flaw, TICK_STARTS_ONCE) });
    }
}
