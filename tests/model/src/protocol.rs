//! The events of a world, and the rules that must always hold.

use stateright::{Model, Property};

use crate::rules::{Rules, Ticks};
use crate::world::{Answer, Asks, Broken, CLIENTS, Client, Owner, Phase, Store, Which, World};

/// A model for the checker.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Protocol<S> {
    pub(crate) rules: Rules,
    pub(crate) store: std::marker::PhantomData<S>,
}

/// An event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Acquire(usize),
    Extend(usize, Ticks),
    Release(usize),
    /// The store continues a request.
    Step(usize, Which),
    Receive(usize),
    GiveUp(usize),
    /// The connection is lost, and the backend resends the request within its call.
    SendAgain(usize),
    /// The driver sends the request to a second server.
    Copy(usize),
    Crash(usize),
    /// A clean-up in the background continues.
    Settle(usize, usize),
    /// The removal of expired records continues.
    Clean,
    Tick,
}

impl<S: Store> Model for Protocol<S> {
    type State = World<S>;
    type Action = Action;

    fn init_states(&self) -> Vec<World<S>> {
        let world = World {
            clients: std::array::from_fn(|index| Client::new(&self.rules, index)),
            store: S::empty(),
            cleaner: None,
            left: self.rules.budget,
            broken: None,
        };
        // Each client's clock is right or ahead by the allowed difference.
        let drifts = if self.rules.drift == 0 { 0..1 } else { 0..CLIENTS };
        let worlds = drifts.map(|fast| {
            let mut world = world;
            for client in &mut world.clients[..fast] {
                client.drift = self.rules.drift;
            }
            world.small(&self.rules)
        });
        worlds.collect()
    }

    fn actions(&self, world: &World<S>, actions: &mut Vec<Action>) {
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
                if world.left.lost > 0 && !client.is_typescript {
                    actions.push(Action::GiveUp(who));
                    let is_extend = matches!(request.asks, Asks::Extend { .. });
                    if S::SENDS_AGAIN && !request.is_again && (S::SENDS_EXTENDS_AGAIN || !is_extend)
                    {
                        actions.push(Action::SendAgain(who));
                    }
                }
                let is_acquire = request.asks == Asks::Acquire && request.answer.is_none();
                if world.left.copies > 0 && is_acquire && !request.is_again {
                    actions.push(Action::Copy(who));
                }
            }
            for (index, _) in client.late.iter().enumerate().filter(|(_, late)| late.is_some()) {
                actions.push(Action::Step(who, Which::Late(index)));
            }
            for (index, _) in client.jobs.iter().enumerate().filter(|(_, job)| job.is_some()) {
                actions.push(Action::Settle(who, index));
            }
            let is_busy = !matches!(client.phase, Phase::Ended { .. } | Phase::Idle);
            if world.left.crashes > 0 && is_busy {
                actions.push(Action::Crash(who));
            }
        }
        if world.left.cleanings > 0 || world.cleaner.is_some() {
            actions.push(Action::Clean);
        }
        actions.push(Action::Tick);
    }

    fn next_state(&self, before: &World<S>, action: Action) -> Option<World<S>> {
        let rules = &self.rules;
        let mut world = *before;
        let possible = match action {
            Action::Acquire(who) => {
                world.clients[who].acquire();
                true
            }
            Action::Extend(who, ttl) => {
                world.left.extends -= 1;
                world.clients[who].extend(rules, ttl)
            }
            Action::Release(who) => world.clients[who].release(),
            Action::Step(who, which) => {
                S::advance(&mut world, rules, who, which) && {
                    world.clients[who].answered(rules, which);
                    true
                }
            }
            Action::Receive(who) => world.clients[who].receive(rules),
            Action::GiveUp(who) => {
                world.left.lost -= 1;
                world.clients[who].give_up(rules)
            }
            Action::SendAgain(who) => {
                world.left.lost -= 1;
                world.clients[who].send_again()
            }
            Action::Copy(who) => {
                world.left.copies -= 1;
                world.clients[who].copy()
            }
            Action::Crash(who) => {
                world.left.crashes -= 1;
                world.clients[who].crash();
                true
            }
            Action::Settle(who, job) => match S::settle(&mut world, rules, who, job) {
                None => false,
                Some(is_done) => {
                    if is_done {
                        world.clients[who].jobs[job] = None;
                    }
                    true
                }
            },
            Action::Clean => S::clean(&mut world, rules),
            Action::Tick => {
                world.tick(rules);
                true
            }
        };
        possible.then(|| world.small(rules))
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always(ONE_HOLDER, |_, world: &World<S>| {
                world.clients.iter().filter(|client| client.relies()).count() <= 1
            }),
            Property::always(FENCES_GROW, |_, world: &World<S>| {
                world.broken != Some(Broken::Fence)
            }),
            Property::always(TICK_STARTS_ONCE, |_, world: &World<S>| {
                world.broken != Some(Broken::Tick)
            }),
            Property::always(NO_ORPHAN, |model: &Self, world: &World<S>| {
                no_orphan(world, &model.rules)
            }),
            Property::sometimes("a lock is extended", |_, world: &World<S>| {
                answers(world).any(|answer| matches!(answer, Answer::Extended(_)))
            }),
            Property::sometimes(
                "an extend is outdated by a later one",
                |model: &Self, world: &World<S>| {
                    world.clients.iter().enumerate().any(|(who, client)| {
                        let mut requests = client.waits.iter().chain(client.late.iter().flatten());
                        requests.any(|it| {
                            let owner = Owner::new(who, it.number);
                            S::is_outdated(world, &model.rules, owner, it)
                        })
                    })
                },
            ),
            Property::sometimes("a lock expires and is taken by another", |_, world: &World<S>| {
                let holds = |client: &Client<S>| matches!(client.phase, Phase::Holds { .. });
                world.clients.iter().filter(|client| holds(client)).count() == 2
            }),
            Property::sometimes(
                "a request is on its way when its acquisition is over",
                |_, world: &World<S>| {
                    world.clients.iter().any(|client| {
                        client.late.iter().flatten().any(|late| late.number != client.left)
                    })
                },
            ),
        ]
    }
}

/// At most one client relies on the lock, by its own clock.
pub(crate) const ONE_HOLDER: &str = "one holder at a time";
/// Each lock's fence is above all earlier fences.
pub(crate) const FENCES_GROW: &str = "fences grow";
/// Of all acquires that ask for one fence, one is granted.
pub(crate) const TICK_STARTS_ONCE: &str = "no tick starts twice";
/// A live lock has an owner that will end it; after a crash of the owner, the lock ends in time.
pub(crate) const NO_ORPHAN: &str = "no orphan";

fn answers<S: Store>(world: &World<S>) -> impl Iterator<Item = Answer<S>> {
    world.requests().filter_map(|request| request.answer)
}

fn no_orphan<S: Store>(world: &World<S>, rules: &Rules) -> bool {
    if let Some((owner, _)) = S::live(world, rules) {
        let client = &world.clients[usize::from(owner.client)];
        let is_ended = matches!(client.phase, Phase::Ended { .. });
        // The TypeScript library leaves the lock to its TTL.
        if !(is_ended || client.is_typescript || client.sees_to(owner.number)) {
            return false;
        }
    }
    (0..CLIENTS).all(|who| world.is_over_in_time(rules, who))
}
