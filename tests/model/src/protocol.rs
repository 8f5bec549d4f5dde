//! The events of a world, and the rules that must always hold.

use stateright::{Model, Property};

use crate::store::{Steps, Store};
use crate::world::{
    Answer, Asks, Broken, CLIENTS, Client, Owner, Phase, Request, Rules, Ticks, Which, World,
};

/// At most one client relies on the lock, by its own clock.
pub(crate) const ONE_HOLDER: &str = "one holder at a time";
/// Each lock's fence is above all earlier fences.
pub(crate) const FENCES_GROW: &str = "fences grow";
/// Of all acquires that ask for one fence, one is granted.
pub(crate) const TICK_STARTS_ONCE: &str = "no tick starts twice";
/// A live lock has an owner that will end it; after a crash of the owner, the lock ends in time.
pub(crate) const NO_ORPHAN: &str = "no orphan";

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Protocol {
    pub(crate) rules: Rules,
    pub(crate) steps: Steps,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire(usize),
    Extend(usize, Ticks),
    Release(usize),
    /// The store carries out a request.
    Step(usize, Which),
    Receive(usize),
    GiveUp(usize),
    /// The backend sends the request a second time within its call.
    SendAgain(usize),
    Crash(usize),
    /// A clean-up in the background takes a step.
    Settle(usize, usize),
    Tick,
}

impl Model for Protocol {
    type State = World;
    type Action = Action;

    fn init_states(&self) -> Vec<World> {
        // Each client's clock is right or ahead by the allowed difference.
        let most = if self.rules.drift == 0 { 1 } else { CLIENTS };
        let worlds = (0..most).map(|fast| {
            let drift = |index| if index < fast { self.rules.drift } else { 0 };
            let world = World {
                clients: std::array::from_fn(|index| Client::new(&self.rules, drift(index))),
                store: Store { lock: None, counter: 0 },
                highest: 0,
                left: self.rules.budget,
                broken: None,
            };
            world.small(&self.rules)
        });
        worlds.collect()
    }

    fn actions(&self, world: &World, actions: &mut Vec<Action>) {
        for (who, client) in world.clients.iter().enumerate() {
            match (client.phase, &client.waits) {
                (Phase::Idle, _) if client.left > 0 => actions.push(Action::Acquire(who)),
                (Phase::Holds { until, .. }, None) => {
                    actions.push(Action::Release(who));
                    if until > 0 && world.left.extends > 0 {
                        actions.push(Action::Extend(who, self.rules.ttl));
                        actions.push(Action::Extend(who, self.rules.short));
                    }
                }
                _ => {}
            }
            if let Some(request) = &client.waits {
                if request.answer.is_some() {
                    actions.push(Action::Receive(who));
                } else {
                    actions.push(Action::Step(who, Which::Awaited));
                }
                if world.left.lost > 0 {
                    actions.push(Action::GiveUp(who));
                }
                // An extend is not sent twice.
                let is_extend = matches!(request.asks, Asks::Extend { .. });
                if world.left.resent > 0 && !request.is_again && !is_extend {
                    actions.push(Action::SendAgain(who));
                }
            }
            let late = client.late.iter().enumerate().filter(|(_, late)| late.is_some());
            actions.extend(late.map(|(index, _)| Action::Step(who, Which::Late(index))));
            let jobs = client.jobs.iter().enumerate().filter(|(_, job)| job.is_some());
            actions.extend(jobs.map(|(index, _)| Action::Settle(who, index)));
            let is_busy = !matches!(client.phase, Phase::Ended { .. } | Phase::Idle);
            if world.left.crashes > 0 && is_busy {
                actions.push(Action::Crash(who));
            }
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, before: &World, action: Action) -> Option<World> {
        let Self { rules, steps } = self;
        let mut world = *before;
        match action {
            Action::Acquire(who) => world.clients[who].acquire(),
            Action::Extend(who, ttl) => {
                world.left.extends -= 1;
                world.clients[who].extend(ttl);
            }
            Action::Release(who) => world.clients[who].release(),
            Action::Step(who, which) => world.step(rules, steps, who, which),
            Action::Receive(who) => world.clients[who].receive(rules),
            Action::GiveUp(who) => {
                world.left.lost -= 1;
                world.clients[who].give_up();
            }
            Action::SendAgain(who) => {
                world.left.resent -= 1;
                world.clients[who].send_again();
            }
            Action::Crash(who) => {
                world.left.crashes -= 1;
                world.clients[who].crash();
            }
            Action::Settle(who, job) => world.settle(rules, steps, who, job),
            Action::Tick => world.tick(rules),
        }
        Some(world.small(rules))
    }

    /// Rules that must always hold; and events that must happen in some world, because a model without them proves nothing.
    fn properties(&self) -> Vec<Property<Self>> {
        let mut properties = vec![
            Property::always(ONE_HOLDER, |_, world: &World| {
                world.clients.iter().filter(|client| client.relies()).count() <= 1
            }),
            Property::always(FENCES_GROW, |_, world: &World| world.broken != Some(Broken::Fence)),
            Property::always(TICK_STARTS_ONCE, |_, world: &World| {
                world.broken != Some(Broken::Tick)
            }),
            Property::always(NO_ORPHAN, |model: &Self, world: &World| {
                no_orphan(world, &model.rules)
            }),
        ];
        let Rules { acquisitions, budget, is_one_tick, .. } = self.rules;
        if !is_one_tick {
            properties.push(Property::sometimes(
                "a lock expires and is taken by another",
                |_, world: &World| {
                    let holds = |client: &&Client| matches!(client.phase, Phase::Holds { .. });
                    world.clients.iter().filter(holds).count() == 2
                },
            ));
        }
        if budget.extends > 0 {
            properties.push(Property::sometimes("a lock is extended", |_, world: &World| {
                let mut requests = world.clients.iter().flat_map(Client::requests);
                requests.any(|request| matches!(request.answer, Some(Answer::Extended(_))))
            }));
        }
        if budget.extends > 1 && budget.lost > 0 {
            properties.push(Property::sometimes(
                "an extend is outdated by a later one",
                |model: &Self, world: &World| {
                    let clients = world.clients.iter().enumerate();
                    let mut requests = clients
                        .flat_map(|(who, client)| client.requests().map(move |it| (who, it)));
                    requests.any(|(who, it)| is_outdated(world, &model.rules, who, it))
                },
            ));
        }
        if acquisitions > 1 && budget.lost > 0 {
            properties.push(Property::sometimes(
                "a request is on its way when its acquisition is over",
                |_, world: &World| {
                    world.clients.iter().any(|client| {
                        client.late.iter().flatten().any(|late| late.number != client.left)
                    })
                },
            ));
        }
        properties
    }
}

fn no_orphan(world: &World, rules: &Rules) -> bool {
    if let Some((owner, _)) = world.live(rules) {
        let client = &world.clients[usize::from(owner.client)];
        if !(matches!(client.phase, Phase::Ended { .. }) || client.sees_to(owner.number)) {
            return false;
        }
    }
    (0..CLIENTS).all(|who| world.is_over_in_time(rules, who))
}

/// Returns true if an extend is on the network, and its lock has another expiry by now.
fn is_outdated(world: &World, rules: &Rules, who: usize, request: &Request) -> bool {
    let Asks::Extend { known, .. } = request.asks else { return false };
    let owner = Owner::new(who, request.number);
    let held = world.store.lock.filter(|held| held.owner == owner && held.is_live(rules, 0));
    request.answer.is_none() && held.is_some_and(|held| held.expires != known)
}
