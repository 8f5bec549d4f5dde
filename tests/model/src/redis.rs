//! Redis: each script is one step.
//!
//! Mirrors `syncguard-redis/src/lua`: `acquire.lua` (deadline; live and ours; live; the window's limit; counter; write),
//! `extend.lua` (deadline; ours; live; expected expiry; another expiry than before), `release.lua`
//! (deadline; ours; live), `is_locked.lua` (its clearing); and `src/settle.rs` with `acquire.rs`
//! (`settled`: on a cluster, an acquire that may have been sent twice has an unknown outcome).
//!
//! Left out: the index entry, which scripts set and delete with the record; `PX`, which deletes only records that the
//! removal here may delete; holders, which decide nothing; the
//! time of a window. "Taken" is "locked" here: the client has no lock.

use crate::rules::{Flaw, Rules, Ticks};
use crate::world::{Again, Answer, Asks, Broken, CLIENTS, Owner, Request, Store, Which, World};

/// The stored data of one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Redis {
    lock: Option<Record>,
    counter: u8,
    /// The highest fence of any lock so far.
    highest: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
struct Record {
    owner: Owner,
    expires: Ticks,
}

impl Redis {
    fn is_live(record: &Record, rules: &Rules) -> bool {
        record.expires + rules.tolerance > 0
    }

    fn acquire(&mut self, rules: &Rules, owner: Owner) -> (Answer<Self>, Option<Broken>) {
        if let Some(held) = self.lock.filter(|held| Self::is_live(held, rules)) {
            let is_ours = held.owner == owner && !rules.has(Flaw::NotIdempotent);
            return (if is_ours { Answer::Granted(held.expires) } else { Answer::Locked }, None);
        }
        if rules.is_taken(self.counter) {
            return (Answer::Locked, None);
        }
        self.counter += 1;
        let is_second = rules.is_one_tick && self.highest > 0;
        let is_lower = self.counter <= self.highest;
        let broken = is_second.then_some(Broken::Tick);
        let broken = broken.or(is_lower.then_some(Broken::Fence));
        self.highest = self.highest.max(self.counter);
        self.lock = Some(Record { owner, expires: rules.ttl });
        (Answer::Granted(rules.ttl), broken)
    }

    fn extend(&mut self, rules: &Rules, owner: Owner, ttl: Ticks, known: Ticks) -> Answer<Self> {
        let Some(held) = self.lock.as_mut().filter(|held| held.owner == owner) else {
            return Answer::NotHeld;
        };
        if !Self::is_live(held, rules) {
            return Answer::NotHeld;
        }
        if held.expires != known && !rules.has(Flaw::BlindExtend) {
            return Answer::Mismatch(held.expires);
        }
        let is_same = held.expires == ttl && !rules.has(Flaw::SameExpiry);
        held.expires = ttl + Ticks::from(is_same);
        Answer::Extended(held.expires)
    }

    fn release(&mut self, rules: &Rules, owner: Owner) -> Answer<Self> {
        let may = |held: &Record| held.owner == owner || rules.has(Flaw::ReleaseOfAnyone);
        match self.lock.filter(may) {
            Some(held) if Self::is_live(&held, rules) => {
                self.lock = None;
                Answer::Released
            }
            _ => Answer::NotHeld,
        }
    }
}

impl Store for Redis {
    type Known = Ticks;
    type At = ();
    type Cleaning = ();
    const SENDS_AGAIN: bool = false;
    const SENDS_EXTENDS_AGAIN: bool = false;
    const KNOWN_COMES_BACK: bool = true;
    const AGAIN: Again = Again::Nothing;

    fn empty() -> Self {
        Self { lock: None, counter: 0, highest: 0 }
    }

    fn advance(world: &mut World<Self>, rules: &Rules, who: usize, which: Which) -> bool {
        let Some(&mut request) = world.request(who, which) else { return false };
        let owner = Owner::new(who, request.number);
        let is_late = 0 > request.sent + rules.bound && !rules.has(Flaw::NoDeadline);
        let store = &mut world.store;
        let answer = match request.asks {
            _ if is_late => Answer::Late,
            Asks::Acquire => {
                let (answer, broken) = store.acquire(rules, owner);
                world.broken = world.broken.or(broken);
                answer
            }
            Asks::Extend { ttl, known } => store.extend(rules, owner, ttl, known),
            Asks::Release { .. } => store.release(rules, owner),
        };
        if let Some(request) = world.request(who, which) {
            request.answer = Some(answer);
        }
        true
    }

    fn settle(world: &mut World<Self>, rules: &Rules, who: usize, job: usize) -> Option<bool> {
        let job = world.clients[who].jobs[job]?;
        let answer = world.store.release(rules, Owner::new(who, job.number));
        let is_over = 0 > job.sent + rules.bound || rules.has(Flaw::SettledTooSoon);
        let is_clustered = rules.budget.copies > 0 && !rules.has(Flaw::ReleasedIsProof);
        Some(match answer {
            _ if !job.is_acquire => true,
            Answer::Released if !is_clustered => true,
            _ => is_over,
        })
    }

    fn clean(world: &mut World<Self>, rules: &Rules) -> bool {
        let store = &mut world.store;
        let expired = store.lock.filter(|lock| !Self::is_live(lock, rules));
        if world.cleaner.take().is_some() {
            store.lock = None;
            return true;
        }
        let Some(expired) = expired else { return false };
        world.left.cleanings -= 1;
        if rules.has(Flaw::UnguardedCleanUp) {
            world.cleaner = Some(expired.expires);
            return true;
        }
        if rules.has(Flaw::CounterCleanedUp) {
            store.counter = 0;
        }
        store.lock = None;
        true
    }

    fn live(world: &World<Self>, rules: &Rules) -> Option<(Owner, Ticks)> {
        let live = world.store.lock.filter(|lock| Self::is_live(lock, rules));
        live.map(|lock| (lock.owner, lock.expires + rules.tolerance))
    }

    fn tick(&mut self, rules: &Rules) {
        if let Some(lock) = &mut self.lock {
            lock.expires = (lock.expires - 1).max(rules.expired());
        }
    }

    fn tick_known(known: &mut Ticks, rules: &Rules) {
        tick_known(known, rules);
    }

    fn tick_at((): &mut (), _: &Rules) {}

    fn names(&self, who: usize) -> bool {
        self.lock.is_some_and(|lock| usize::from(lock.owner.client) == who)
    }

    fn rename(&mut self, new: &[u8; CLIENTS]) {
        if let Some(lock) = &mut self.lock {
            lock.owner.rename(new);
        }
    }

    fn will_live(request: &Request<Self>, _: &Rules) -> Option<Ticks> {
        matches!(request.asks, Asks::Release { .. }).then_some(0)
    }

    fn is_outdated(
        world: &World<Self>,
        rules: &Rules,
        owner: Owner,
        request: &Request<Self>,
    ) -> bool {
        let held =
            world.store.lock.filter(|held| held.owner == owner && Self::is_live(held, rules));
        let Asks::Extend { known, .. } = request.asks else { return false };
        request.answer.is_none() && held.is_some_and(|held| held.expires != known)
    }

    fn rebase(world: &mut World<Self>) {
        let store = &mut world.store;
        let lowest = store.counter.min(store.highest);
        store.counter -= lowest;
        store.highest -= lowest;
    }

    fn forget(world: &mut World<Self>, rules: &Rules) {
        let is_over = |sent| 0 > sent + rules.bound && !rules.has(Flaw::NoDeadline);
        let is_quiet = world.left.lost == 0 && world.left.copies == 0;
        let World { store, clients, .. } = world;
        // An expired record counts as absent.
        if !rules.has_any(&[Flaw::UnguardedCleanUp, Flaw::CounterCleanedUp]) {
            store.lock.take_if(|lock| !Self::is_live(lock, rules));
        }
        for (who, client) in clients.iter_mut().enumerate() {
            // A late request changes nothing.
            for late in &mut client.late {
                late.take_if(|late| is_over(late.sent));
            }
            if let Some(waits) = client.waits.as_mut().filter(|it| it.answer.is_none())
                && is_quiet
                && is_over(waits.sent)
            {
                waits.answer = Some(Answer::Late);
                client.answered(rules, Which::Awaited);
            }
            let client_now = *client;
            let can_be = |number| {
                store.lock.is_some_and(|lock| lock.owner == Owner::new(who, number))
                    || client_now.can_acquire(number)
            };
            for late in &mut client.late {
                late.take_if(|late| {
                    let is_foreign = rules.has(Flaw::ReleaseOfAnyone);
                    late.asks != Asks::Acquire && !is_foreign && !can_be(late.number)
                });
            }
            for job in &mut client.jobs {
                job.take_if(|job| !can_be(job.number));
            }
        }
    }

    fn for_release(_: Ticks) -> Ticks {
        NOTHING
    }

    fn is_on_its_way(_: &Request<Self>) -> bool {
        true
    }
}

/// A release states no expiry.
pub(crate) const NOTHING: Ticks = Ticks::MIN;

/// An expiry that a client knows, a tick later.
pub(crate) fn tick_known(known: &mut Ticks, rules: &Rules) {
    if *known != NOTHING {
        *known = (*known - 1).max(rules.expired());
    }
}
