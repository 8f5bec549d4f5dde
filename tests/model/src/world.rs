//! A world: the clients, what they have on its way, and the store.

use std::fmt::Debug;
use std::hash::Hash;

use crate::rules::{Budget, Rules, Ticks};

/// How many clients there are.
pub(crate) const CLIENTS: usize = 3;

/// How many requests, and how many clean-ups, of one client can be under way beside the one that it waits
/// for.
pub(crate) const ASIDE: usize = 3;

/// What models are made of: small, compared and hashed.
pub trait Plain: Copy + Ord + Hash + Debug + Send + Sync + 'static {}
impl<T: Copy + Ord + Hash + Debug + Send + Sync + 'static> Plain for T {}

/// A store, and how it carries requests out.
pub trait Store: Plain {
    /// What a holder knows of its lock in the store, and extends on the condition of.
    type Known: Plain;
    /// How far a request has come in the store.
    type At: Plain + Default;
    /// How far a clean-up has come.
    type Cleaning: Plain + Default;

    /// Whether the backend sends a request again, within one call, when its connection is lost.
    const SENDS_AGAIN: bool;
    /// Whether it does so with an extend.
    const SENDS_EXTENDS_AGAIN: bool;
    /// Whether what a holder knows of its lock can come back: an expiry can, a version cannot.
    const KNOWN_COMES_BACK: bool;
    /// What the answer to an acquire is worth that was sent twice.
    const AGAIN: Again;

    /// Nothing in it.
    fn empty() -> Self;

    /// One more step of a request: false if it has to wait, or there is none.
    fn advance(world: &mut World<Self>, rules: &Rules, who: usize, which: Which) -> bool;

    /// One more step of the clean-up of an acquire that nobody wants: `None` if it has to wait, else whether
    /// it is done.
    fn settle(world: &mut World<Self>, rules: &Rules, who: usize, job: usize) -> Option<bool>;

    /// One more step of clearing an expired record away: false if there is none.
    fn clean(world: &mut World<Self>, rules: &Rules) -> bool;

    /// The live lock, and for how long it will be live if nobody touches it.
    fn live(world: &World<Self>, rules: &Rules) -> Option<(Owner, Ticks)>;

    /// For how long the lock will be live, at the most, that this request is about to write, if that is settled
    /// already. None: it is not settled.
    fn will_live(request: &Request<Self>, rules: &Rules) -> Option<Ticks>;

    /// Whether a client knows its lock otherwise than it is stored, and its extend is on its way.
    fn is_outdated(
        world: &World<Self>,
        rules: &Rules,
        owner: Owner,
        request: &Request<Self>,
    ) -> bool;

    /// Time passes.
    fn tick(&mut self, rules: &Rules);
    /// Time passes for what a holder knows.
    fn tick_known(known: &mut Self::Known, rules: &Rules);
    /// Time passes for a request.
    fn tick_at(at: &mut Self::At, rules: &Rules);

    /// Whether what is stored names a client.
    fn names(&self, who: usize) -> bool;

    /// Clients have other numbers now.
    fn rename(&mut self, new: &[u8; CLIENTS]);

    /// Clients have other numbers now, for a request.
    fn rename_at(_at: &mut Self::At, _new: &[u8; CLIENTS]) {}

    /// Fences only have to grow: how many there were before makes no difference.
    fn rebase(world: &mut World<Self>);

    /// Forgets what can make no difference any more: see `reduce.rs`.
    fn forget(world: &mut World<Self>, rules: &Rules);

    /// Lets happen at once what may as well: see `reduce.rs`.
    fn hasten(_world: &mut World<Self>, _rules: &Rules) {}
    /// What of a holder's knowledge its release states.
    fn for_release(known: Self::Known) -> Self::Known;
    /// A client has ended: what the store does about its connection.
    fn crashed(_client: &mut Client<Self>) {}
    /// How the clean-up begins of the acquire that a client has just given up.
    fn cleaning(_client: &Client<Self>) -> Self::Cleaning {
        Self::Cleaning::default()
    }
    /// Whether a request that is given up here can still do something.
    fn is_on_its_way(request: &Request<Self>) -> bool;
}

/// What the answer to an acquire is worth that was sent twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    /// Nothing: it is cleaned up.
    Nothing,
    /// A grant holds, and when it is released the other sending is still to be seen to. A refusal is worth
    /// nothing.
    Grant,
    /// It is the last word.
    Everything,
}

/// Whose lock: which client's, and which of its acquisitions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) client: u8,
    pub(crate) number: u8,
}

impl Owner {
    /// Whose lock it was makes no difference any more.
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

/// Everything there is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct World<S: Store> {
    pub(crate) clients: [Client<S>; CLIENTS],
    pub(crate) store: S,
    /// What a clean-up of expired records has seen, in the middle of one.
    pub(crate) cleaner: Option<S::Known>,
    pub(crate) left: Budget,
    pub(crate) broken: Option<Broken>,
}

/// What was broken by a step and cannot be seen afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Broken {
    /// A fence that is not above all earlier ones.
    Fence,
}

/// One client.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Client<S: Store> {
    /// Of the TypeScript library.
    pub(crate) is_typescript: bool,
    /// How far its clock is ahead.
    pub(crate) drift: Ticks,
    /// Acquisitions that it may still begin. The number of the current one.
    pub(crate) left: u8,
    pub(crate) phase: Phase<S>,
    /// The request that it waits for.
    pub(crate) waits: Option<Request<S>>,
    /// Requests that it has given up.
    pub(crate) late: [Option<Request<S>>; ASIDE],
    /// What is to be given back in the background.
    pub(crate) jobs: [Option<Job<S>>; ASIDE],
}

/// What a client is at.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Phase<S: Store> {
    /// Nothing.
    Idle,
    /// It waits for an acquire.
    Acquires,
    /// It has the lock, and relies on it as long as `until` is after now.
    Holds { until: Ticks, known: S::Known, doubt: Option<Ticks> },
    /// It waits for a release.
    Releases { doubt: Option<Ticks> },
    /// It has ended.
    Ended { at: Ticks },
}

/// A request.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Request<S: Store> {
    pub(crate) asks: Asks<S>,
    /// Of which acquisition.
    pub(crate) number: u8,
    /// When its caller asked: what is promised counts from then.
    pub(crate) asked: Ticks,
    /// When it was sent last. Its deadline is the bound later.
    pub(crate) sent: Ticks,
    /// Whether it was sent before, and that sending may still arrive.
    pub(crate) is_again: bool,
    pub(crate) at: S::At,
    pub(crate) answer: Option<Answer<S>>,
}

/// What is asked.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Asks<S: Store> {
    Acquire,
    Extend { ttl: Ticks, known: S::Known },
    Release { known: S::Known },
}

/// What is answered.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Answer<S: Store> {
    Granted(S::Known),
    Locked,
    Extended(S::Known),
    /// The lock is held, and is not as its holder knew it.
    Mismatch(S::Known),
    Released,
    NotHeld,
    /// It came after its deadline.
    Late,
}

/// Something to give back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Job<S: Store> {
    /// Whether it is an acquire of unknown outcome, and not just a release to repeat.
    pub(crate) is_acquire: bool,
    pub(crate) number: u8,
    /// When it was sent last.
    pub(crate) sent: Ticks,
    pub(crate) at: S::Cleaning,
}

/// One of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Which {
    /// The one that it waits for.
    Awaited,
    /// One that it has given up.
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

    /// Time passes by one tick.
    pub(crate) fn tick(&mut self, rules: &Rules) {
        let pass = |at: &mut Ticks, floor: Ticks| *at = (*at - 1).max(-floor);
        // Once a deadline is over, and a promise, it is over for good.
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

    /// Requests of which nobody knows the order have none.
    pub(crate) fn sorted(mut self) -> Self {
        for client in &mut self.clients {
            client.late.sort_unstable_by(|one, other| other.cmp(one));
            client.jobs.sort_unstable_by(|one, other| other.cmp(one));
        }
        self
    }

    /// The same world, with the clients in their order.
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
