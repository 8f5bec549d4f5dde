//! Redis: every order of events, and each rule broken once.

mod common;

use common::{FENCES_GROW, Flawed, NO_ORPHAN, ONE_HOLDER, holds, is_found};
use syncguard_model::{Budget, Flaw, Redis, Rules};

/// In the size that fits into a test run. `cargo run --release -p syncguard-model -- redis` takes others.
const SMALL: Budget = Budget { extends: 1, lost: 1, crashes: 1, copies: 0, cleanings: 0 };

#[test]
fn nothing_breaks_the_scripts() {
    holds::<Redis>("Redis", Rules { budget: SMALL, ..Rules::default() });
}

/// On a cluster the driver may send an acquire to two servers.
#[test]
fn nothing_breaks_the_scripts_on_a_cluster() {
    let budget = Budget { copies: 1, ..SMALL };
    common::never_breaks::<Redis>(
        "Redis Cluster",
        Rules { acquisitions: 1, budget, ..Rules::default() },
    );
}

#[test]
fn every_broken_rule_is_found() {
    let of = |budget| Rules { acquisitions: 1, budget, ..Rules::default() };
    let cluster = of(Budget { copies: 1, ..SMALL });
    let flawed = |flaw, breaks| {
        let budget = Budget { crashes: 0, extends: 2, cleanings: 1, ..SMALL };
        Flawed { rules: of(budget), ..Flawed::new(flaw, breaks) }
    };
    for flawed in [
        flawed(Flaw::NoDeadline, NO_ORPHAN),
        flawed(Flaw::BlindExtend, ONE_HOLDER),
        flawed(Flaw::SameExpiry, ONE_HOLDER),
        flawed(Flaw::SettledTooSoon, NO_ORPHAN),
        flawed(Flaw::NoCleanUp, NO_ORPHAN),
        flawed(Flaw::PromiseFromReply, ONE_HOLDER),
        flawed(Flaw::OptimisticExtend, ONE_HOLDER),
        flawed(Flaw::ReleaseOfAnyone, ONE_HOLDER),
        flawed(Flaw::UnguardedCleanUp, ONE_HOLDER),
        flawed(Flaw::CounterCleanedUp, FENCES_GROW),
        Flawed { rules: cluster, ..flawed(Flaw::ReleasedIsProof, NO_ORPHAN) },
        Flawed { rules: cluster, ..flawed(Flaw::NotIdempotent, NO_ORPHAN) },
    ] {
        is_found::<Redis>(&flawed);
    }
}
