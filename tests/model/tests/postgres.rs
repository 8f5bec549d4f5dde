//! PostgreSQL: every order of events, statement by statement, and each rule broken once.

mod common;

use common::{FENCES_GROW, Flawed, NO_ORPHAN, ONE_HOLDER, holds, is_found};
use syncguard_model::{Budget, Flaw, Postgres, Rules};

/// In the size that fits into a test run. `cargo run --release -p syncguard-model -- postgres` takes others.
const SMALL: Budget = Budget { extends: 1, lost: 1, crashes: 0, copies: 0, cleanings: 0 };

fn rules(budget: Budget, typescript: usize) -> Rules {
    Rules { acquisitions: 1, budget, typescript, ..Rules::default() }
}

#[test]
fn nothing_breaks_the_statements() {
    holds::<Postgres>("PostgreSQL", rules(SMALL, 0));
}

#[test]
fn nothing_breaks_the_statements_where_clients_crash() {
    let budget = Budget { extends: 1, lost: 0, crashes: 1, cleanings: 1, ..SMALL };
    common::never_breaks::<Postgres>("PostgreSQL, a crash", rules(budget, 0));
}

#[test]
fn nothing_breaks_the_statements_beside_a_client_of_the_typescript_library() {
    let budget = Budget { lost: 0, crashes: 1, ..SMALL };
    common::never_breaks::<Postgres>("PostgreSQL and TypeScript", rules(budget, 1));
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

/// The TypeScript library among itself: it reads without a lock, and writes whatever the row has become.
#[test]
fn two_clients_of_the_typescript_library_can_hold_one_lock() {
    common::is_broken::<Postgres>(rules(Budget { lost: 0, ..SMALL }, 2), ONE_HOLDER);
}
