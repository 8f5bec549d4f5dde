//! Firestore: reads and commits with preconditions; the time is each client's own.
//!
//! Mirrors `syncguard-firestore/src`: `acquire.rs` (`look`, `take`: both preconditions), `extend.rs` (`once`,
//! `prolong`), `release.rs`, `by_lock_id.rs` (`choose`), `settle.rs` (`once`), `is_locked.rs`; `retry.rs` starts
//! over with a read after a conflict, or when the connection is lost.
//!
//! A document's update time is one of three values: none ([`ABSENT`]), the newest, or an older one. Left out: the
//! cache of a lock's version beside its holder's knowledge; duplicates of a lock id.

mod forget;

use crate::rules::{Flaw, Rules, Ticks};
use crate::world::{
    Again, Answer, Asks, Broken, CLIENTS, Client, Owner, Phase, Request, Store, Which, World,
};

/// The stored data.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Firestore {
    lock: Option<Lock>,
    counter: u8,
    has_counter: bool,
    /// The highest fence of any lock so far.
    highest: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Lock {
    owner: Owner,
    expires: Ticks,
}

/// A version of a document.
type Version = u8;
const ABSENT: Version = 0;
const OLD: Version = 1;
const NEWEST: Version = 2;

/// A holder's knowledge of its lock.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Known {
    version: Version,
    expires: Ticks,
}

/// The progress of an operation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub enum At {
    /// At its first call: a read for an acquire, otherwise nothing was sent yet.
    #[default]
    Begins,
    /// The client has lost against another writer, and reads again.
    Reads,
    /// Its commit is on the network: with these versions, this expiry and this fence.
    Commits { lock: Version, counter: Version, expires: Ticks, fence: u8 },
}

/// The progress of a clean-up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Cleaning {
    /// The counter's version that the acquire's last commit stated, if it sent one.
    seen: Option<Version>,
    look: Option<Look>,
}

/// The result of a clean-up's read.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Look {
    is_ours: bool,
    /// The counter has changed since the acquire's last commit, or no commit was sent.
    is_void: bool,
    lock: Version,
    counter: Version,
}

impl Firestore {
    fn lock_version(&self) -> Version {
        if self.lock.is_some() { NEWEST } else { ABSENT }
    }

    fn counter_version(&self) -> Version {
        if self.has_counter { NEWEST } else { ABSENT }
    }
}

fn is_live(lock: &Lock, rules: &Rules, now: Ticks) -> bool {
    let tolerance = if rules.has(Flaw::NoTolerance) { 0 } else { rules.tolerance };
    lock.expires + tolerance > now
}

/// All versions that any client knows.
fn outdate(world: &mut World<Firestore>, lock: bool, counter: bool) {
    let old = |version: &mut Version, is_written: bool| {
        if is_written && *version == NEWEST {
            *version = OLD;
        }
    };
    if let Some(known) = &mut world.cleaner {
        old(&mut known.version, lock);
    }
    for client in &mut world.clients {
        if let Phase::Holds { known, .. } = &mut client.phase {
            old(&mut known.version, lock);
        }
        for request in client.waits.iter_mut().chain(client.late.iter_mut().flatten()) {
            if let Asks::Extend { known, .. } | Asks::Release { known } = &mut request.asks {
                old(&mut known.version, lock);
            }
            if let Some(
                Answer::Granted(known) | Answer::Extended(known) | Answer::Mismatch(known),
            ) = &mut request.answer
            {
                old(&mut known.version, lock);
            }
            if let At::Commits { lock: of_lock, counter: of_counter, .. } = &mut request.at {
                old(of_lock, lock);
                old(of_counter, counter);
            }
        }
        for job in client.jobs.iter_mut().flatten() {
            job.at.seen.iter_mut().for_each(|seen| old(seen, counter));
            if let Some(look) = &mut job.at.look {
                old(&mut look.lock, lock);
                old(&mut look.counter, counter);
            }
        }
    }
}

fn write(world: &mut World<Firestore>, lock: Option<Lock>) {
    outdate(world, true, false);
    world.store.lock = lock;
}

fn move_counter(world: &mut World<Firestore>, to: u8) {
    outdate(world, false, true);
    world.store.counter = to;
    world.store.has_counter = true;
}

enum Next {
    At(At),
    Answer(Answer<Firestore>),
}

/// `look`, then `take`.
fn acquire(world: &mut World<Firestore>, rules: &Rules, owner: Owner, at: At, now: Ticks) -> Next {
    let store = world.store;
    let At::Commits { lock, counter, expires, fence } = at else {
        return match store.lock.filter(|lock| is_live(lock, rules, now)) {
            Some(held) if held.owner == owner => {
                Next::Answer(Answer::Granted(Known { version: NEWEST, expires: held.expires }))
            }
            Some(_) => Next::Answer(Answer::Locked),
            // A tick is taken.
            None if rules.is_taken(store.counter) => Next::Answer(Answer::Locked),
            None => Next::At(At::Commits {
                lock: store.lock_version(),
                counter: store.counter_version(),
                expires: now + rules.ttl,
                fence: store.counter + 1,
            }),
        };
    };
    let is_lock = lock == store.lock_version() || rules.has(Flaw::LockUnguarded);
    let is_counter = counter == store.counter_version() || rules.has(Flaw::CounterUnguarded);
    if !(is_lock && is_counter) {
        return Next::At(At::Reads);
    }
    if rules.is_one_tick && store.highest > 0 {
        world.broken = Some(Broken::Tick);
    } else if fence <= store.highest {
        world.broken = Some(Broken::Fence);
    }
    write(world, Some(Lock { owner, expires }));
    move_counter(world, fence);
    world.store.highest = store.highest.max(fence);
    Next::Answer(Answer::Granted(Known { version: NEWEST, expires }))
}

/// `once` and `prolong`: with the known version, otherwise with the version that a query finds.
fn extend(
    world: &mut World<Firestore>,
    rules: &Rules,
    owner: Owner,
    at: At,
    (now, ttl, known): (Ticks, Ticks, Known),
) -> Next {
    let commit = |version: Version, before: Ticks| {
        let expires = now + ttl;
        let is_same = expires == before && !rules.has(Flaw::SameExpiry);
        let expires = expires + Ticks::from(is_same);
        Next::At(At::Commits { lock: version, counter: ABSENT, expires, fence: 0 })
    };
    match (at, world.store.lock) {
        (At::Begins, _) => commit(known.version, known.expires),
        (At::Reads, found) => match found.filter(|it| it.owner == owner && is_live(it, rules, now))
        {
            None => Next::Answer(Answer::NotHeld),
            Some(found) if found.expires != known.expires && !rules.has(Flaw::BlindExtend) => {
                let known = Known { version: NEWEST, expires: found.expires };
                Next::Answer(Answer::Mismatch(known))
            }
            Some(found) => commit(NEWEST, found.expires),
        },
        (At::Commits { lock, expires, .. }, Some(found))
            if lock == NEWEST || rules.has(Flaw::BlindExtend) =>
        {
            // A write without a change leaves the version as it is.
            if expires != found.expires {
                write(world, Some(Lock { expires, ..found }));
            }
            Next::Answer(Answer::Extended(Known { version: NEWEST, expires }))
        }
        (At::Commits { .. }, _) => Next::At(At::Reads),
    }
}

/// `once`: with the known version, otherwise with the version that a query finds.
fn release(
    world: &mut World<Firestore>,
    rules: &Rules,
    owner: Owner,
    at: At,
    (now, known): (Ticks, Known),
) -> Next {
    let version = match at {
        At::Begins => known.version,
        At::Commits { lock, .. } => lock,
        At::Reads => {
            let found = world.store.lock.filter(|it| it.owner == owner && is_live(it, rules, now));
            return match found {
                None => Next::Answer(Answer::NotHeld),
                Some(_) => {
                    let (lock, counter, expires, fence) = (NEWEST, ABSENT, 0, 0);
                    Next::At(At::Commits { lock, counter, expires, fence })
                }
            };
        }
    };
    let is_there = world.store.lock.is_some();
    if is_there && (version == NEWEST || rules.has(Flaw::ReleaseUnguarded)) {
        write(world, None);
        return Next::Answer(Answer::Released);
    }
    Next::At(At::Reads)
}

impl Store for Firestore {
    type Known = Known;
    type At = At;
    type Cleaning = Cleaning;
    const SENDS_AGAIN: bool = true;
    const SENDS_EXTENDS_AGAIN: bool = true;
    const KNOWN_COMES_BACK: bool = false;
    const AGAIN: Again = Again::Everything;

    fn empty() -> Self {
        Self { lock: None, counter: 0, has_counter: false, highest: 0 }
    }

    fn advance(world: &mut World<Self>, rules: &Rules, who: usize, which: Which) -> bool {
        let Some(&mut request) = world.request(who, which) else { return false };
        let owner = Owner::new(who, request.number);
        let (at, now) = (request.at, world.clients[who].drift);
        let next = match request.asks {
            Asks::Acquire => acquire(world, rules, owner, at, now),
            Asks::Extend { ttl, known } => extend(world, rules, owner, at, (now, ttl, known)),
            Asks::Release { known } => release(world, rules, owner, at, (now, known)),
        };
        let Some(request) = world.request(who, which) else { return false };
        match next {
            Next::Answer(answer) => {
                request.at = At::Begins;
                request.answer = Some(answer);
            }
            // The sender is gone, so there is no retry.
            Next::At(At::Reads) if which != Which::Awaited => request.answer = Some(Answer::Late),
            Next::At(at) => request.at = at,
        }
        true
    }

    fn settle(world: &mut World<Self>, rules: &Rules, who: usize, job: usize) -> Option<bool> {
        let this = world.clients[who].jobs[job]?;
        let owner = Owner::new(who, this.number);
        let store = world.store;
        let Some(Look { is_ours, is_void, lock, counter }) = this.at.look else {
            let is_ours = store.lock.is_some_and(|lock| lock.owner == owner);
            let (lock, counter) = (store.lock_version(), store.counter_version());
            let is_void = this.at.seen.is_none_or(|seen| counter > seen);
            let look = Look { is_ours, is_void, lock, counter };
            world.clients[who].jobs[job].as_mut()?.at.look = Some(look);
            return Some(false);
        };
        if is_ours {
            let is_met = lock == store.lock_version();
            if is_met {
                write(world, None);
            }
            world.clients[who].jobs[job].as_mut()?.at.look = None;
            return Some(is_met);
        }
        if is_void || !this.is_acquire || rules.has(Flaw::CounterLeftAlone) {
            return Some(true);
        }
        let is_met = counter == store.counter_version();
        if is_met {
            move_counter(world, store.counter + 1);
        }
        world.clients[who].jobs[job].as_mut()?.at.look = None;
        Some(is_met)
    }

    fn clean(world: &mut World<Self>, rules: &Rules) -> bool {
        if let Some(known) = world.cleaner.take() {
            if world.store.lock.is_some()
                && (known.version == NEWEST || rules.has(Flaw::UnguardedCleanUp))
            {
                write(world, None);
            }
            return true;
        }
        let expired = world.store.lock.filter(|lock| !is_live(lock, rules, rules.drift));
        let Some(expired) = expired else { return false };
        world.left.cleanings -= 1;
        world.cleaner = Some(Known { version: NEWEST, expires: expired.expires });
        true
    }

    /// Over by every client's clock. By its holder's clock it may be over sooner.
    fn live(world: &World<Self>, rules: &Rules) -> Option<(Owner, Ticks)> {
        let live = world.store.lock.filter(|lock| is_live(lock, rules, rules.drift));
        live.map(|lock| (lock.owner, lock.expires + rules.tolerance - rules.drift))
    }

    fn tick(&mut self, rules: &Rules) {
        if let Some(lock) = &mut self.lock {
            lock.expires = (lock.expires - 1).max(rules.expired());
        }
    }

    fn tick_known(known: &mut Known, rules: &Rules) {
        known.expires = (known.expires - 1).max(rules.expired());
    }

    fn tick_at(at: &mut At, rules: &Rules) {
        if let At::Commits { expires, .. } = at {
            *expires = (*expires - 1).max(rules.expired());
        }
    }

    fn names(&self, who: usize) -> bool {
        self.lock.is_some_and(|lock| usize::from(lock.owner.client) == who)
    }

    fn rename(&mut self, new: &[u8; CLIENTS]) {
        if let Some(lock) = &mut self.lock {
            lock.owner.rename(new);
        }
    }

    fn will_live(request: &Request<Self>, rules: &Rules) -> Option<Ticks> {
        match (request.asks, request.at) {
            (Asks::Release { .. }, _) => Some(0),
            (_, At::Commits { expires, .. }) => Some(expires + rules.tolerance - rules.drift),
            _ => None,
        }
    }

    fn is_outdated(world: &World<Self>, _: &Rules, owner: Owner, request: &Request<Self>) -> bool {
        let held = world.store.lock.filter(|held| held.owner == owner);
        let Asks::Extend { known, .. } = request.asks else { return false };
        request.at == At::Reads && held.is_some_and(|held| held.expires != known.expires)
    }

    fn rebase(world: &mut World<Self>) {
        forget::rebase(world);
    }

    fn forget(world: &mut World<Self>, rules: &Rules) {
        forget::forget(world, rules);
    }

    fn for_release(known: Known) -> Known {
        Known { expires: 0, ..known }
    }

    fn cleaning(client: &Client<Self>) -> Cleaning {
        let requests = client.waits.iter().chain(client.late.iter().flatten());
        let stated = requests.filter(|it| it.number == client.left && it.asks == Asks::Acquire);
        let seen = stated.filter_map(|request| match request.at {
            At::Commits { counter, .. } => Some(counter),
            _ => None,
        });
        Cleaning { seen: seen.max(), look: None }
    }

    fn is_on_its_way(request: &Request<Self>) -> bool {
        match request.asks {
            Asks::Release { .. } => request.at != At::Reads,
            _ => matches!(request.at, At::Commits { .. }),
        }
    }
}
