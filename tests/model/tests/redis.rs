//! Redis: every order of events, and each rule broken once.

mod common;

use common::{FENCES_GROW, Flawed, NO_ORPHAN, ONE_HOLDER, holds, is_found};
use syncguard_model::{Budget, Flaw, Redis, Rules};

#[test]
fn nothing_breaks_the_scripts() {
    holds::<Redis>("Redis", Rules::default());
}

/// On a cluster the driver may send an acquire to two servers.
#[test]
fn nothing_breaks_the_scripts_on_a_cluster() {
    let budget = Budget { extends: 1, copies: 1, ..Rules::default().budget };
    holds::<Redis>("Redis Cluster", Rules { budget, ..Rules::default() });
}

#[test]
fn every_broken_rule_is_found() {
    let cluster = Budget { copies: 1, ..Rules::default().budget };
    let cluster = Rules { budget: cluster, ..Rules::default() };
    for flawed in [
        Flawed::new(Flaw::NoDeadline, NO_ORPHAN),
        Flawed::new(Flaw::BlindExtend, ONE_HOLDER),
        Flawed::new(Flaw::SameExpiry, ONE_HOLDER),
        Flawed::new(Flaw::SettledTooSoon, NO_ORPHAN),
        Flawed::new(Flaw::NoCleanUp, NO_ORPHAN),
        Flawed::new(Flaw::PromiseFromReply, ONE_HOLDER),
        Flawed::new(Flaw::OptimisticExtend, ONE_HOLDER),
        Flawed::new(Flaw::ReleaseOfAnyone, ONE_HOLDER),
        Flawed::new(Flaw::UnguardedCleanUp, ONE_HOLDER),
        Flawed::new(Flaw::CounterCleanedUp, FENCES_GROW),
        Flawed { rules: cluster, ..Flawed::new(Flaw::ReleasedIsProof, NO_ORPHAN) },
        Flawed { rules: cluster, ..Flawed::new(Flaw::NotIdempotent, NO_ORPHAN) },
    ] {
        is_found::<Redis>(&flawed);
    }
}
