//! Forgetting loses nothing and adds nothing: tested in each world of small sizes.

use std::collections::{BTreeSet, HashSet};

use stateright::Model as _;

use crate::protocol::{Action, Protocol};
use crate::world::{Budget, Phase, Rules, World};

/// Returns all steps, without forgetting.
struct Both(Protocol);

impl Both {
    fn new(rules: Rules) -> Self {
        let rules = Rules { is_reduced: false, ..rules };
        Self(Protocol { rules, ..Protocol::default() })
    }

    fn smaller(&self, mut world: World) -> World {
        world.forget(&self.0.rules);
        world.sorted()
    }

    fn next(&self, world: &World) -> Vec<(Action, World)> {
        let mut actions = Vec::new();
        self.0.actions(world, &mut actions);
        let next = |action| Some((action, self.0.next_state(world, action)?));
        actions.into_iter().filter_map(next).collect()
    }

    /// The worlds after one step, reduced; steps without an effect in the reduced world do not count.
    fn goes_on_to(&self, world: World, small: &World) -> BTreeSet<World> {
        let (mut met, mut open) = (HashSet::from([world]), vec![world]);
        let mut goes_on_to = BTreeSet::new();
        while let Some(world) = open.pop() {
            for (action, next) in self.next(&world) {
                if is_nothing_new(action, &world, small) {
                    continue;
                }
                let smaller = self.smaller(next);
                if smaller != *small {
                    goes_on_to.insert(smaller);
                } else if met.insert(next) {
                    open.push(next);
                }
            }
        }
        goes_on_to
    }

    /// Compares a world with its reduced form: the same rules hold, and the same worlds follow.
    fn compare(&self, world: World) {
        let small = self.smaller(world);
        for property in self.0.properties() {
            if property.expectation.discovery_is_failure() {
                let [here, there] = [&world, &small].map(|it| (property.condition)(&self.0, it));
                assert_eq!(here, there, "{}: {world:?}\n{small:?}", property.name);
            }
        }
        if world == small {
            return;
        }
        let (here, there) = (self.goes_on_to(world, &small), self.goes_on_to(small, &small));
        let lost = here.difference(&there).next();
        assert_eq!(lost, None, "lost of {small:?}\nfor {world:?}");
        let added = there.difference(&here).next();
        assert_eq!(added, None, "added to {small:?}\nfor {world:?}");
    }
}

/// A client that waits for an answer without information has it already. If the client crashes meanwhile, that is as
/// if it began nothing again.
fn is_nothing_new(action: Action, world: &World, small: &World) -> bool {
    let Action::Crash(who) = action else { return false };
    small.clients[who].phase == Phase::Idle && world.clients[who].phase != Phase::Idle
}

/// Visits all worlds of two clients.
fn compare_all(rules: Rules) {
    let both = Both::new(rules);
    let mut open = both.0.init_states();
    for world in &mut open {
        world.clients[0].left = 0;
    }
    let mut met: HashSet<_> = open.iter().map(|world| world.in_order()).collect();
    let mut smaller = HashSet::new();
    while let Some(world) = open.pop() {
        both.compare(world);
        smaller.insert(both.smaller(world).in_order());
        for (_, next) in both.next(&world) {
            if met.insert(next.in_order()) {
                open.push(next);
            }
        }
    }
    println!("{} worlds, {} smaller: {rules:?}", met.len(), smaller.len());
    assert!(smaller.len() < met.len());
}

/// Worlds of three clients, on random paths.
fn compare_some(rules: Rules, steps: usize) {
    let both = Both::new(rules);
    let mut number = 1_u64;
    let mut draw = |below: usize| {
        number =
            number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(number >> 33).unwrap_or_default() % below
    };
    let beginnings = both.0.init_states();
    let mut world = beginnings[0];
    for _ in 0..steps {
        both.compare(world);
        let mut next = both.next(&world);
        // Otherwise most paths would only let time pass.
        next.retain(|(action, next)| *action != Action::Tick || *next != world && draw(3) == 0);
        world = match next.len() {
            0 => beginnings[draw(beginnings.len())],
            count => next[draw(count)].1,
        };
    }
}

const WHOLE: Budget = Budget { extends: 1, lost: 1, resent: 0, crashes: 1 };

#[test]
fn forgetting_changes_nothing() {
    let resent = Budget { resent: 1, extends: 0, ..WHOLE };
    compare_all(Rules { budget: WHOLE, ..Rules::default() });
    let two = Rules { acquisitions: 2, budget: Budget { resent: 1, ..WHOLE }, ..Rules::default() };
    compare_some(two, 20_000);
    compare_some(Rules { drift: 1, ..two }, 20_000);
    compare_all(Rules { budget: resent, ..Rules::default() });
    compare_all(Rules { budget: Budget { lost: 0, ..WHOLE }, drift: 1, ..Rules::default() });
}
