//! Forgetting loses nothing and adds nothing: tested in each world of small sizes.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use std::collections::{BTreeSet, HashSet};
use std::marker::PhantomData;

use stateright::Model as _;

use crate::protocol::{Action, Protocol};
use crate::rules::{Budget, Flaw, Rules};
use crate::world::{Phase, Store, World};
use crate::{Firestore, Postgres, Redis};

/// All steps, with forgetting.
struct Both<S: Store> {
    model: Protocol<S>,
    /// With the events that stores let happen at once, which must lose nothing.
    is_hasty: bool,
}

impl<S: Store> Both<S> {
    fn new(rules: Rules, is_hasty: bool) -> Self {
        let rules = Rules { is_reduced: false, ..rules };
        Self { is_hasty, model: Protocol { rules, store: PhantomData } }
    }

    fn smaller(&self, world: &World<S>) -> World<S> {
        let mut small = *world;
        if self.is_hasty && small.left.lost == 0 {
            S::hasten(&mut small, &self.model.rules);
        }
        small.forget(&self.model.rules);
        small.sorted()
    }

    fn next(&self, world: &World<S>) -> Vec<(Action, World<S>)> {
        let mut actions = Vec::new();
        self.model.actions(world, &mut actions);
        let next = |action| Some((action, self.model.next_state(world, action)?));
        actions.into_iter().filter_map(next).collect()
    }

    /// The worlds after one step, reduced; steps without an effect in the reduced world do not count.
    fn goes_on_to(&self, world: &World<S>, small: &World<S>) -> BTreeSet<World<S>> {
        let (mut met, mut open) = (HashSet::from([*world]), vec![*world]);
        let mut goes_on_to = BTreeSet::new();
        while let Some(world) = open.pop() {
            for (action, next) in self.next(&world) {
                if is_nothing_new(action, &world, small) {
                    continue;
                }
                let smaller = self.smaller(&next);
                if smaller != *small {
                    goes_on_to.insert(smaller);
                } else if met.insert(next) {
                    open.push(next);
                }
            }
        }
        goes_on_to
    }

    fn compare(&self, world: &World<S>) {
        let small = self.smaller(world);
        for property in self.model.properties() {
            if property.expectation.discovery_is_failure() {
                let [here, there] = [world, &small].map(|it| (property.condition)(&self.model, it));
                assert_eq!(here, there, "{}: {world:?}\n{small:?}", property.name);
            }
        }
        if *world == small {
            return;
        }
        let (here, there) = (self.goes_on_to(world, &small), self.goes_on_to(&small, &small));
        let lost = here.difference(&there).next();
        assert_eq!(lost, None, "lost of {small:?}\nfor {world:?}");
        let added = there.difference(&here).next().filter(|_| !self.is_hasty);
        assert_eq!(added, None, "added to {small:?}\nfor {world:?}");
    }
}

/// A client that waits for an answer without information has it already. If the client crashes meanwhile, that is as
/// if it began nothing again.
fn is_nothing_new<S: Store>(action: Action, world: &World<S>, small: &World<S>) -> bool {
    let Action::Crash(who) = action else { return false };
    small.clients[who].phase == Phase::Idle && world.clients[who].phase != Phase::Idle
}

/// Visits all worlds of two clients. Returns how many were not reduced already.
fn compare_all<S: Store>(rules: Rules) {
    compare_each::<S>(&Both::new(rules, false), 1);
}

/// Visits one in this many worlds of two clients.
fn compare_each<S: Store>(both: &Both<S>, one_in: usize) {
    let rules = both.model.rules;
    let mut open = both.model.init_states();
    for world in &mut open {
        world.clients[0].left = 0;
        world.clients[0].is_typescript = false;
        if rules.typescript > 0 {
            world.clients[1].is_typescript = true;
        }
    }
    let mut met: HashSet<_> = open.iter().map(|world| world.in_order()).collect();
    let mut smaller = HashSet::new();
    while let Some(world) = open.pop() {
        if met.len() % one_in == 0 {
            both.compare(&world);
        }
        smaller.insert(both.smaller(&world).in_order());
        for (_, next) in both.next(&world) {
            if met.insert(next.in_order()) {
                open.push(next);
            }
        }
    }
    let name = std::any::type_name::<S>();
    println!("{name} {:?}: {} worlds, {} smaller", rules.flaw, met.len(), smaller.len());
    assert!(smaller.len() < met.len());
}

/// Worlds of three clients, on random paths.
fn compare_some<S: Store>(rules: Rules, steps: usize) {
    let both = Both::<S>::new(rules, false);
    let mut number = 1_u64;
    let mut draw = |below: usize| {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (number >> 33) as usize % below
    };
    let beginnings = both.model.init_states();
    let mut world = beginnings[0];
    for _ in 0..steps {
        both.compare(&world);
        let mut next = both.next(&world);
        // Otherwise most paths would only let time pass.
        next.retain(|(action, next)| *action != Action::Tick || *next != world && draw(3) == 0);
        world = match next.len() {
            0 => beginnings[draw(beginnings.len())],
            count => next[draw(count)].1,
        };
    }
}

const SMALL: Budget = Budget { extends: 1, lost: 1, crashes: 1, copies: 0, cleanings: 0 };

const LOST: Budget = Budget { crashes: 0, ..SMALL };

/// All worlds would take minutes.
const ONE_IN: usize = 20;

fn rules(budget: Budget) -> Rules {
    Rules { acquisitions: 1, budget, ..Rules::default() }
}

#[test]
fn forgetting_changes_nothing_on_redis() {
    compare_all::<Redis>(rules(SMALL));
    compare_some::<Redis>(Rules { acquisitions: 2, ..rules(SMALL) }, 20_000);
}

#[test]
fn forgetting_changes_nothing_on_postgres() {
    let cleans = Budget { cleanings: 1, lost: 0, ..SMALL };
    compare_all::<Postgres>(rules(cleans));
    compare_each(&Both::<Postgres>::new(rules(LOST), false), ONE_IN);
    compare_each(&Both::<Postgres>::new(rules(LOST), true), ONE_IN);
    compare_all::<Postgres>(Rules { typescript: 1, ..rules(cleans) });
    compare_some::<Postgres>(Rules { acquisitions: 2, ..rules(SMALL) }, 20_000);
    compare_some::<Postgres>(Rules { acquisitions: 2, typescript: 1, ..rules(SMALL) }, 20_000);
}

#[test]
fn forgetting_changes_nothing_on_firestore() {
    let cleans = Budget { cleanings: 1, lost: 0, ..SMALL };
    compare_each(&Both::<Firestore>::new(rules(SMALL), false), ONE_IN);
    compare_all::<Firestore>(Rules { drift: 1, ..rules(cleans) });
    compare_some::<Firestore>(Rules { acquisitions: 2, drift: 1, ..rules(SMALL) }, 20_000);
}

/// A world that is broken on purpose stays as broken when facts are forgotten.
#[test]
fn forgetting_changes_nothing_where_a_rule_is_broken() {
    compare_some::<Postgres>(rules(SMALL).with(Flaw::NoDeadline), 5_000);
}
