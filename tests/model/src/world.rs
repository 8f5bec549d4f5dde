//! A world: the clients, their requests on the network, and the store; and the size of a model.

use crate::store::Store;

/// Ticks of time; in a world they count from now.
pub(crate) type Ticks = i8;

pub(crate) const CLIENTS: usize = 3;

/// How many requests and clean-ups of one client can be in progress besides the request that it waits for.
pub(crate) const ASIDE: usize = 3;

/// An expiry that no later step uses.
pub(crate) const UNUSED: Ticks = Ticks::MIN;

/// The size of a model.
///
/// The ticks stand for any times in the same order: a request is given up sooner than a lock expires, and the longest
/// TTL is longer than the shortest one and the tolerance.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rules {
    pub(crate) ttl: Ticks,
    /// A shorter TTL that an extend may ask for.
    pub(crate) short: Ticks,
    /// How long an expired lock still counts as live.
    pub(crate) tolerance: Ticks,
    /// The latest time after the sending at which the store carries a request out.
    pub(crate) bound: Ticks,
    /// The largest difference of clients' clocks, in a store whose locks live by them.
    pub(crate) drift: Ticks,
    /// The number of acquisitions of each client that end in a lock, or in doubt.
    pub(crate) acquisitions: u8,
    /// The limits of events, in all.
    pub(crate) budget: Budget,
    /// True if all acquires ask for the key's first fence, as processes do for one tick.
    pub(crate) is_one_tick: bool,
    /// True if equivalent worlds are merged: see `small.rs`.
    pub(crate) is_reduced: bool,
}

/// The limits of events, in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Budget {
    pub(crate) extends: u8,
    /// Requests that are given up: their reply is lost, or they are still on the network.
    pub(crate) lost: u8,
    /// Requests that the backend sends a second time within its call.
    pub(crate) resent: u8,
    pub(crate) crashes: u8,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            ttl: 3,
            short: 1,
            tolerance: 1,
            bound: 1,
            drift: 0,
            acquisitions: 1,
            budget: Budget::default(),
            is_one_tick: false,
            is_reduced: true,
        }
    }
}

impl Rules {
    /// How long a lock of a crashed client may live: it was sent at the last moment, carried out at the last moment,
    /// and then has its TTL. An extend may add the smallest step of time.
    pub(crate) fn longest(&self) -> Ticks {
        self.bound + self.ttl + 1 + self.tolerance + self.drift
    }

    /// A lock with this expiry is over by every clock.
    pub(crate) fn expired(&self) -> Ticks {
        -(self.tolerance + self.drift)
    }

    /// Returns true if the store refuses a request of this time, now and later.
    pub(crate) fn is_late(&self, sent: Ticks) -> bool {
        sent + self.bound < 0
    }
}

/// The owner of a lock: a client, and one of its acquisitions.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Owner {
    pub(crate) client: u8,
    pub(crate) number: u8,
}

impl Owner {
    pub(crate) fn new(who: usize, number: u8) -> Self {
        Self { client: u8::try_from(who).unwrap_or(u8::MAX), number }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct World {
    pub(crate) clients: [Client; CLIENTS],
    pub(crate) store: Store,
    /// The highest fence of any lock so far.
    pub(crate) highest: u8,
    pub(crate) left: Budget,
    pub(crate) broken: Option<Broken>,
}

/// A violation by a step that the world does not show afterwards.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Broken {
    /// A fence that is not above all earlier fences.
    Fence,
    Tick,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Client {
    /// How far its clock is ahead.
    pub(crate) drift: Ticks,
    /// The number of acquisitions that it may still begin, which is the number of the current one.
    pub(crate) left: u8,
    pub(crate) phase: Phase,
    /// The request that it waits for.
    pub(crate) waits: Option<Request>,
    /// Requests that it has given up.
    pub(crate) late: [Option<Request>; ASIDE],
    pub(crate) jobs: [Option<Job>; ASIDE],
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Phase {
    Idle,
    Acquires,
    /// Has the lock, with this expiry in the store, and relies on it as long as `until` is after now. The acquire was
    /// sent twice, at last at the time `doubt`, if there is one.
    Holds {
        until: Ticks,
        known: Ticks,
        doubt: Option<Ticks>,
    },
    Releases {
        doubt: Option<Ticks>,
    },
    Ended {
        at: Ticks,
    },
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Request {
    pub(crate) asks: Asks,
    pub(crate) number: u8,
    /// The time of the call, from which its promise counts.
    pub(crate) asked: Ticks,
    /// The time of the last sending. Its deadline is `bound` later.
    pub(crate) sent: Ticks,
    /// True if it was sent before, and that sending may still arrive.
    pub(crate) is_again: bool,
    pub(crate) answer: Option<Answer>,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Asks {
    Acquire,
    Extend { ttl: Ticks, known: Ticks },
    Release,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Answer {
    /// Granted until this expiry.
    Granted(Ticks),
    /// Another caller holds the lock, or the fence window refuses the acquire.
    Locked,
    /// Extended until this expiry.
    Extended(Ticks),
    /// The lock is held, and has another expiry than its holder expected.
    Mismatch(Ticks),
    Released,
    NotHeld,
    /// The request came after its deadline.
    Late,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Job {
    /// The last sending of an acquire of unknown outcome, or `None` for a release to repeat.
    pub(crate) sent: Option<Ticks>,
    /// True if the acquire was sent twice, so that it may be granted twice.
    pub(crate) is_again: bool,
    pub(crate) number: u8,
}

/// One of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) enum Which {
    /// The request that it waits for.
    Awaited,
    /// A request that it has given up.
    Late(usize),
}

impl Client {
    /// Its requests, the awaited one and those that it has given up.
    pub(crate) fn requests(&self) -> impl Iterator<Item = &Request> {
        self.waits.iter().chain(self.late.iter().flatten())
    }

    pub(crate) fn requests_mut(&mut self) -> impl Iterator<Item = &mut Request> {
        self.waits.iter_mut().chain(self.late.iter_mut().flatten())
    }

    fn tick(&mut self, rules: &Rules) {
        let pass = |at: &mut Ticks, floor: Ticks| *at = (*at - 1).max(-floor);
        // A deadline, a promise or an expiry that is over stays over.
        let (deadline, promise) = (rules.bound + 1, rules.ttl.max(rules.bound + 1));
        let expiry = |known: &mut Ticks| {
            if *known != UNUSED {
                pass(known, -rules.expired());
            }
        };
        match &mut self.phase {
            Phase::Holds { until, known, doubt } => {
                pass(until, 0);
                expiry(known);
                if let Some(doubt) = doubt {
                    pass(doubt, deadline);
                }
            }
            Phase::Releases { doubt: Some(doubt) } => pass(doubt, deadline),
            Phase::Ended { at } => pass(at, rules.longest()),
            Phase::Idle | Phase::Acquires | Phase::Releases { doubt: None } => {}
        }
        for request in self.requests_mut() {
            pass(&mut request.sent, deadline);
            pass(&mut request.asked, promise);
            if let Asks::Extend { known, .. } = &mut request.asks {
                expiry(known);
            }
            if let Some(Answer::Granted(it) | Answer::Extended(it) | Answer::Mismatch(it)) =
                &mut request.answer
            {
                expiry(it);
            }
        }
        for job in self.jobs.iter_mut().flatten() {
            if let Some(sent) = &mut job.sent {
                pass(sent, deadline);
            }
        }
    }
}

impl World {
    pub(crate) fn request(&mut self, who: usize, which: Which) -> Option<&mut Request> {
        match which {
            Which::Awaited => self.clients[who].waits.as_mut(),
            Which::Late(index) => self.clients[who].late[index].as_mut(),
        }
    }

    pub(crate) fn tick(&mut self, rules: &Rules) {
        if let Some(lock) = &mut self.store.lock {
            lock.expires = (lock.expires - 1).max(rules.expired());
        }
        for client in &mut self.clients {
            client.tick(rules);
        }
    }

    /// The live lock, and how long it will be live for every client without changes.
    pub(crate) fn live(&self, rules: &Rules) -> Option<(Owner, Ticks)> {
        let live = self.store.lock.filter(|lock| lock.is_live(rules, rules.drift));
        live.map(|lock| (lock.owner, lock.expires + rules.tolerance - rules.drift))
    }

    /// Returns true if the lock of a client that has ended, and any that it will still write, is over in time.
    pub(crate) fn is_over_in_time(&self, rules: &Rules, who: usize) -> bool {
        let Phase::Ended { at } = self.clients[who].phase else { return true };
        let live = self.live(rules).filter(|(owner, _)| usize::from(owner.client) == who);
        live.is_none_or(|(_, lives)| lives - at <= rules.longest())
    }
}
