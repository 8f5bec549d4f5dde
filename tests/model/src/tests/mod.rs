//! Every order of events, and stores and clocks that break a rule.

mod forgetting;

use stateright::{Checker as _, HasDiscoveries, Model as _};

use crate::protocol::{FENCES_GROW, NO_ORPHAN, ONE_HOLDER, Protocol, TICK_STARTS_ONCE};
use crate::store::{Asked, Lock, Steps, Store};
use crate::world::{Answer, Budget, Rules};

const WHOLE: Budget = Budget { extends: 1, lost: 1, resent: 0, crashes: 1 };

/// Visits all worlds: no rule is broken, and the events that have to happen do so in some of them.
fn holds(rules: Rules) {
    let model = Protocol { rules, ..Protocol::default() };
    let checker = model.checker().threads(2).finish_when(HasDiscoveries::AnyFailures);
    let checker = checker.spawn_bfs().join();
    println!("{} worlds, {} deep: {rules:?}", checker.unique_state_count(), checker.max_depth());
    checker.assert_properties();
}

/// Visits worlds until this rule is broken.
fn breaks(model: Protocol, rule: &'static str) {
    let checker = model.checker().finish_when(HasDiscoveries::AnyOf([rule].into()));
    let checker = checker.spawn_bfs().join();
    println!("{rule}: after {} worlds", checker.unique_state_count());
    checker.assert_any_discovery(rule);
}

#[test]
fn no_order_of_events_breaks_a_rule() {
    holds(Rules { acquisitions: 2, budget: WHOLE, ..Rules::default() });
}

/// A backend that loses its connection sends an acquire again, and both sendings may be carried out.
#[test]
fn no_request_that_is_sent_twice_breaks_a_rule() {
    holds(Rules { budget: Budget { resent: 1, ..WHOLE }, ..Rules::default() });
}

/// An extend states the expected expiry. Later extends may bring back that expiry, and then it applies again.
#[test]
fn an_extend_that_is_late_shortens_nothing_its_holder_relies_on() {
    holds(Rules { budget: Budget { extends: 3, crashes: 0, ..WHOLE }, ..Rules::default() });
}

/// Clocks may differ by as much as the tolerance.
#[test]
fn locks_that_live_by_the_clocks_of_clients_bear_the_tolerance_and_no_more() {
    let rules = Rules { drift: 1, budget: WHOLE, ..Rules::default() };
    holds(rules);
    breaks(Protocol { rules: Rules { drift: 2, ..rules }, ..Protocol::default() }, ONE_HOLDER);
}

/// Three processes ask for one tick, some more than once.
#[test]
fn no_tick_starts_twice() {
    let budget = Budget { extends: 0, resent: 1, ..WHOLE };
    holds(Rules { is_one_tick: true, acquisitions: 2, budget, ..Rules::default() });
}

/// Each rule is broken by a store that does one step wrong, so the checker sees what happens.
#[test]
fn a_store_that_does_a_step_wrong_breaks_a_rule() {
    let right = Steps::default();
    let grants_without_looking = |store: &mut Store, rules: &Rules, asked: Asked| {
        store.counter += 1;
        store.lock = Some(Lock { owner: asked.owner, expires: rules.ttl });
        Answer::Granted(rules.ttl)
    };
    let counts_nothing = |store: &mut Store, rules: &Rules, asked: Asked| {
        let before = store.counter;
        let answer = (Steps::default().acquire)(store, rules, asked);
        store.counter = before;
        answer
    };
    let releases_any_lock = |store: &mut Store, _: &Rules, _: Asked| {
        store.lock = None;
        Answer::Released
    };
    let rules = Rules { budget: WHOLE, is_reduced: false, ..Rules::default() };
    let tick = Rules { is_one_tick: true, ..rules };
    for (steps, rules, rule) in [
        (Steps { acquire: grants_without_looking, ..right }, rules, ONE_HOLDER),
        (Steps { acquire: grants_without_looking, ..right }, tick, TICK_STARTS_ONCE),
        (Steps { acquire: counts_nothing, ..right }, rules, FENCES_GROW),
        (Steps { release: releases_any_lock, ..right }, rules, ONE_HOLDER),
        (Steps { is_late: |_, _| false, ..right }, rules, NO_ORPHAN),
    ] {
        breaks(Protocol { rules, steps }, rule);
    }
}

/// Larger sizes.
mod long {
    use super::*;

    #[test]
    fn no_order_of_more_events_breaks_a_rule() {
        let two = Rules { acquisitions: 2, budget: WHOLE, ..Rules::default() };
        holds(Rules { budget: Budget { extends: 2, ..WHOLE }, ..two });
        holds(Rules { budget: Budget { resent: 1, ..WHOLE }, ..two });
        holds(Rules { drift: 1, ..two });
    }
}
