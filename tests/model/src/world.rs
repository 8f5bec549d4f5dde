//! A world: the clients, their requests on the network, and the store.

use std::fmt::Debug;
use std::hash::Hash;

use crate::rules::{Budget, Rules, Ticks};

/// The number of clients.
pub(crate) const CLIENTS: usize = 3;

/// How many requests and clean-ups of one client can be in progress besides the request that it waits for.
pub(crate) const ASIDE: usize = 3;

/// The bounds of a model's parts: small, comparable and hashable.
pub trait Plain: Copy + Ord + Hash + Debug + Send + Sync + 'static {}
impl<T: Copy + Ord + Hash + Debug + Send + Sync + 'static> Plain for T {}

/// A store, and its steps for requests.
pub trait Store: Plain {
    /// A holder's knowledge of its lock in the store, which its extends state as a condition.
    type Known: Plain;
    /// The progress of a request in the store.
    type At: Plain + Default;
    /// The progress of a clean-up.
    type Cleaning: Plain + Default;

    /// Returns true if the backend resends a request, within one call, when its connection is lost.
    const SENDS_AGAIN: bool;
    /// Returns true if the backend resends an extend.
    const SENDS_EXTENDS_AGAIN: bool;
    /// True if a holder's knowledge of its lock can become right again: an expiry can return, a version cannot.
    const KNOWN_COMES_BACK: bool;
    /// The value of the answer to an acquire that was sent twice.
    const AGAIN: Again;

    /// An empty store.
    fn empty() -> Self;

    /// Takes a step of a request; false if it has to wait, or there is none.
    fn advance(world: &mut World<Self>, rules: &Rules, who: usize, which: Which) -> bool;

    /// Takes a step of the clean-up of an acquire without a caller; `None` if it has to wait, otherwise whether it is
    /// done.
    fn settle(world: &mut World<Self>, rules: &Rules, who: usize, job: usize) -> Option<bool>;

    /// Takes a step of the removal of an expired record; false if there is none.
    fn clean(world: &mut World<Self>, rules: &Rules) -> bool;

    /// The live lock, and how long it will be live without changes.
    fn live(world: &World<Self>, rules: &Rules) -> Option<(Owner, Ticks)>;

    /// The longest time for which the lock of this request will be live, if that is decided already; otherwise
    /// `None`.
    fn will_live(request: &Request<Self>, rules: &Rules) -> Option<Ticks>;

    /// Returns true if a client's knowledge of its lock is outdated, and its extend is on the network.
    fn is_outdated(
        world: &World<Self>,
        rules: &Rules,
        owner: Owner,
        request: &Request<Self>,
    ) -> bool;

    /// Time passes.
    fn tick(&mut self, rules: &Rules);
    /// Time passes for a holder's knowledge.
    fn tick_known(known: &mut Self::Known, rules: &Rules);
    /// Time passes for a request.
    fn tick_at(at: &mut Self::At, rules: &Rules);

    /// Returns true if the stored data names a client.
    fn names(&self, who: usize) -> bool;

    /// Renumbers the clients.
    fn rename(&mut self, new: &[u8; CLIENTS]);

    /// Renumbers the clients in a request.
    fn rename_at(_at: &mut Self::At, _new: &[u8; CLIENTS]) {}

    /// Fences only have to grow, so their number makes no difference.
    fn rebase(world: &mut World<Self>);

    /// Forgets facts that make no difference any more: see `reduce.rs`.
    fn forget(world: &mut World<Self>, rules: &Rules);

    /// Lets events happen at once that may: see `reduce.rs`.
    fn hasten(_world: &mut World<Self>, _rules: &Rules) {}
    /// The part of a holder's knowledge that its release states.
    fn for_release(known: Self::Known) -> Self::Known;
    /// A client has ended: the store's reaction to the end of its connection.
    fn crashed(_client: &mut Client<Self>) {}
    /// The start of the clean-up of an acquire that a client has just given up.
    fn cleaning(_client: &Client<Self>) -> Self::Cleaning {
        Self::Cleaning::default()
    }
    /// Returns true if a request that is given up here can still have an effect.
    fn is_on_its_way(request: &Request<Self>) -> bool;
}

/// The value of the answer to an acquire that was sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    /// No value: the acquire is cleaned up.
    Nothing,
    /// A grant is valid, and after its release the other sending still needs a clean-up. A refusal has no value.
    Grant,
    /// The answer is final.
    Everything,
}

/// The owner of a lock: a client, and one of its acquisitions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) client: u8,
    pub(crate) number: u8,
}

impl Owner {
    /// An owner that makes no difference any more.
    pub(crate) const NOBODY: Self = Self { client: u8::MAX, number: 0 };

    pub(crate) fn new(who: usize, number: u8) -> Self {
        Self { client: u8::try_from(who).unwrap_or(u8::MAX), number }
    }

    pub(crate) fn rename(&mut self, new: &[u8; CLIENTS]) {
        if *self != Self::NOBODY {
            self.client = new[usize::from(self.client)];
        }
    }
}

/// A whole world.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct World<S: Store> {
    pub(crate) clients: [Client<S>; CLIENTS],
    pub(crate) store: S,
    /// The knowledge of a clean-up of expired records in progress.
    pub(crate) cleaner: Option<S::Known>,
    pub(crate) left: Budget,
    pub(crate) broken: Option<Broken>,
}

/// A violation by a step that the world does not show afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Broken {
    /// A fence that is not above all earlier fences.
    Fence,
    /// A tick that was granted twice.
    Tick,
}

/// A client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Client<S: Store> {
    /// True for a client of the TypeScript library.
    pub(crate) is_typescript: bool,
    /// How far its clock is ahead.
    pub(crate) drift: Ticks,
    /// The number of acquisitions that it may still begin, which is the number of the current one.
    pub(crate) left: u8,
    pub(crate) phase: Phase<S>,
    /// The request that it waits for.
    pub(crate) waits: Option<Request<S>>,
    /// Requests that it has given up.
    pub(crate) late: [Option<Request<S>>; ASIDE],
    /// Its clean-ups in the background.
    pub(crate) jobs: [Option<Job<S>>; ASIDE],
}

/// The state of a client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Phase<S: Store> {
    /// Nothing.
    Idle,
    /// Waits for an acquire.
    Acquires,
    /// Has the lock, and relies on it as long as `until` is after now.
    Holds { until: Ticks, known: S::Known, doubt: Option<Ticks> },
    /// Waits for a release.
    Releases { doubt: Option<Ticks> },
    /// Has ended.
    Ended { at: Ticks },
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Request<S: Store> {
    pub(crate) asks: Asks<S>,
    /// The number of its acquisition.
    pub(crate) number: u8,
    /// The time of the call, from which its promise counts.
    pub(crate) asked: Ticks,
    /// The time of the last sending. Its deadline is `bound` later.
    pub(crate) sent: Ticks,
    /// True if it was sent before, and that sending may still arrive.
    pub(crate) is_again: bool,
    pub(crate) at: S::At,
    pub(crate) answer: Option<Answer<S>>,
}

/// The operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Asks<S: Store> {
    Acquire,
    Extend { ttl: Ticks, known: S::Known },
    Release { known: S::Known },
}

/// An answer.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Answer<S: Store> {
    Granted(S::Known),
    Locked,
    Extended(S::Known),
    /// The lock is held, and is not as its holder expected.
    Mismatch(S::Known),
    Released,
    NotHeld,
    /// The request came after its deadline.
    Late,
}

/// A clean-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Job<S: Store> {
    /// True for an acquire of unknown outcome, and false for a release to repeat.
    pub(crate) is_acquire: bool,
    pub(crate) number: u8,
    /// The time of the last sending.
    pub(crate) sent: Ticks,
    pub(crate) at: S::Cleaning,
}

/// One of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Which {
    /// The request that it waits for.
    Awaited,
    /// A request that it has given up.
    Late(usize),
}

impl<S: Store> World<S> {
    pub(crate) fn request(&mut self, who: usize, which: Which) -> Option<&mut Request<S>> {
        match which {
            Which::Awaited => self.clients[who].waits.as_mut(),
            Which::Late(index) => self.clients[who].late[index].as_mut(),
        }
    }

    pub(crate) fn requests(&self) -> impl Iterator<Item = &Request<S>> {
        self.clients
            .iter()
            .flat_map(|client| client.waits.iter().chain(client.late.iter().flatten()))
    }

    /// Lets time pass by one tick.
    pub(crate) fn tick(&mut self, rules: &Rules) {
        let pass = |at: &mut Ticks, floor: Ticks| *at = (*at - 1).max(-floor);
        // A deadline or a promise that is over stays over.
        let (deadline, promise) = (rules.bound + 1, rules.ttl.max(rules.bound + 1));
        self.store.tick(rules);
        if let Some(known) = &mut self.cleaner {
            S::tick_known(known, rules);
        }
        for client in &mut self.clients {
            match &mut client.phase {
                Phase::Holds { until, known, doubt } => {
                    *until = (*until - 1).max(0);
                    S::tick_known(known, rules);
                    if let Some(doubt) = doubt {
                        pass(doubt, deadline);
                    }
                }
                Phase::Releases { doubt } => {
                    if let Some(doubt) = doubt {
                        pass(doubt, deadline);
                    }
                }
                Phase::Ended { at } => pass(at, rules.longest()),
                Phase::Idle | Phase::Acquires => {}
            }
            for request in client.waits.iter_mut().chain(client.late.iter_mut().flatten()) {
                pass(&mut request.sent, deadline);
                pass(&mut request.asked, promise);
                S::tick_at(&mut request.at, rules);
                match &mut request.asks {
                    Asks::Extend { known, .. } | Asks::Release { known } => {
                        S::tick_known(known, rules);
                    }
                    Asks::Acquire => {}
                }
                if let Some(
                    Answer::Granted(known) | Answer::Extended(known) | Answer::Mismatch(known),
                ) = &mut request.answer
                {
                    S::tick_known(known, rules);
                }
            }
            for job in client.jobs.iter_mut().flatten() {
                pass(&mut job.sent, deadline);
            }
        }
    }

    /// Sorts requests without a known order.
    pub(crate) fn sorted(mut self) -> Self {
        for client in &mut self.clients {
            client.late.sort_unstable_by(|one, other| other.cmp(one));
            client.jobs.sort_unstable_by(|one, other| other.cmp(one));
        }
        self
    }

    /// The same world with sorted clients.
    pub(crate) fn in_order(mut self) -> Self {
        let mut order: [usize; CLIENTS] = [0, 1, 2];
        let marked = |index: usize| {
            let mut store = self.store;
            let mut marks = [0; CLIENTS];
            marks[index] = 1;
            store.rename(&marks);
            (self.clients[index], store)
        };
        if order.windows(2).any(|pair| self.clients[pair[0]] == self.clients[pair[1]]) {
            order.sort_by_key(|index| marked(*index));
        } else {
            order.sort_unstable_by(|one, other| self.clients[*one].cmp(&self.clients[*other]));
        }
        if order != [0, 1, 2] {
            let mut new = [0; CLIENTS];
            for (to, from) in order.into_iter().enumerate() {
                new[from] = u8::try_from(to).unwrap_or_default();
            }
            self.clients = order.map(|from| self.clients[from]);
            self.store.rename(&new);
            for client in &mut self.clients {
                let requests = client.waits.iter_mut().chain(client.late.iter_mut().flatten());
                requests.for_each(|request| S::rename_at(&mut request.at, &new));
            }
        }
        self
    }
}
