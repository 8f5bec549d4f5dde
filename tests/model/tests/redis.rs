//! Redis: every order of events, and each rule broken once.

use crate::common::{
    FENCES_GROW, Flawed, NO_ORPHAN, ONE_HOLDER, TICK_STARTS_ONCE, holds, is_found,
};
use syncguard_model::{Budget, Flaw, Redis, Rules};

/// The sizes of the guide, and smaller ones.
const WHOLE: Budget = Budget { extends: 2, lost: 1, crashes: 1, copies: 0, cleanings: 1 };
const SMALL: Budget = Budget { extends: 1, cleanings: 0, ..WHOLE };

#[test]
fn nothing_breaks_the_scripts() {
    holds::<Redis>("Redis", Rules { budget: WHOLE, ..Rules::default() });
}

#[test]
fn nothing_is_lost_by_forgetting() {
    let budget = Budget { crashes: 0, ..SMALL };
    let rules = Rules { acquisitions: 1, budget, ..Rules::default() };
    crate::common::holds_either_way::<Redis>("Redis, one acquisition", rules);
}

/// On a cluster the driver may send an acquire to two servers.
#[test]
fn nothing_breaks_the_scripts_on_a_cluster() {
    let budget = Budget { copies: 1, ..SMALL };
    crate::common::never_breaks::<Redis>(
        "Redis Cluster",
        Rules { acquisitions: 1, budget, ..Rules::default() },
    );
}

/// An extend states the expected expiry. Later extends may bring back that expiry, and then it applies again.
#[test]
fn an_extend_that_is_late_shortens_nothing_its_holder_relies_on() {
    let budget = Budget { extends: 3, crashes: 0, ..SMALL };
    let rules = Rules { acquisitions: 1, budget, ..Rules::default() };
    crate::common::never_breaks::<Redis>("Redis, an extend that is late", rules);
    let flaw = Flaw::TrustsLastExtend;
    is_found::<Redis>(&Flawed { rules, ..Flawed::new(flaw, ONE_HOLDER) });
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

/// Three processes ask for one tick, some more than once.
#[test]
fn no_tick_starts_twice() {
    let budget = Budget { extends: 0, lost: 1, crashes: 1, copies: 1, cleanings: 1 };
    let tick = Rules { is_one_tick: true, acquisitions: 2, budget, ..Rules::default() };
    crate::common::never_breaks::<Redis>("Redis, one tick", tick);
    let flaw = Flaw::WindowIgnored;
    is_found::<Redis>(&Flawed { rules: tick, ..Flawed::new(flaw, TICK_STARTS_ONCE) });
}
