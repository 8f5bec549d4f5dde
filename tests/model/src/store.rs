//! A store that carries out each operation in one step.

use crate::world::{Answer, Asks, Broken, Owner, Rules, Ticks, Which, World};

/// The stored data of one key.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Store {
    pub(crate) lock: Option<Lock>,
    pub(crate) counter: u8,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub(crate) struct Lock {
    pub(crate) owner: Owner,
    pub(crate) expires: Ticks,
}

impl Lock {
    pub(crate) fn is_live(self, rules: &Rules, now: Ticks) -> bool {
        self.expires + rules.tolerance > now
    }
}

/// A request in the store: its owner, and the time, which is zero by the store's clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) owner: Owner,
    pub(crate) now: Ticks,
    pub(crate) sent: Ticks,
}

/// The steps of a store. A test puts another step in the place of one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Steps {
    pub(crate) is_late: fn(&Rules, Asked) -> bool,
    pub(crate) acquire: fn(&mut Store, &Rules, Asked) -> Answer,
    pub(crate) extend: fn(&mut Store, &Rules, Asked, ttl: Ticks, known: Ticks) -> Answer,
    pub(crate) release: fn(&mut Store, &Rules, Asked) -> Answer,
}

impl Default for Steps {
    /// The steps that the contract asks for.
    fn default() -> Self {
        let is_late = |rules: &Rules, asked: Asked| rules.is_late(asked.sent);
        Self { is_late, acquire, extend, release }
    }
}

fn acquire(store: &mut Store, rules: &Rules, Asked { owner, now, .. }: Asked) -> Answer {
    if let Some(held) = store.lock.filter(|held| held.is_live(rules, now)) {
        return if held.owner == owner { Answer::Granted(held.expires) } else { Answer::Locked };
    }
    if rules.is_one_tick && store.counter > 0 {
        // The fence window of the tick is used up.
        return Answer::Locked;
    }
    store.counter += 1;
    let expires = now + rules.ttl;
    store.lock = Some(Lock { owner, expires });
    Answer::Granted(expires)
}

fn extend(store: &mut Store, rules: &Rules, asked: Asked, ttl: Ticks, known: Ticks) -> Answer {
    let is_held = |held: &&mut Lock| held.owner == asked.owner && held.is_live(rules, asked.now);
    let Some(held) = store.lock.as_mut().filter(is_held) else { return Answer::NotHeld };
    if held.expires != known {
        return Answer::Mismatch(held.expires);
    }
    let expires = asked.now + ttl;
    // Every extend changes the expiry.
    held.expires = expires + Ticks::from(expires == known);
    Answer::Extended(held.expires)
}

fn release(store: &mut Store, rules: &Rules, asked: Asked) -> Answer {
    let is_held = |held: &mut Lock| held.owner == asked.owner && held.is_live(rules, asked.now);
    match store.lock.take_if(is_held) {
        Some(_) => Answer::Released,
        None => Answer::NotHeld,
    }
}

impl World {
    fn asked(&self, who: usize, number: u8, sent: Ticks) -> Asked {
        Asked { owner: Owner::new(who, number), now: self.clients[who].drift, sent }
    }

    /// The store carries out a request.
    pub(crate) fn step(&mut self, rules: &Rules, steps: &Steps, who: usize, which: Which) {
        let Some(&mut request) = self.request(who, which) else { return };
        let asked = self.asked(who, request.number, request.sent);
        let before = self.store.lock;
        let store = &mut self.store;
        let answer = match request.asks {
            _ if (steps.is_late)(rules, asked) => Answer::Late,
            Asks::Acquire => (steps.acquire)(store, rules, asked),
            Asks::Extend { ttl, known } => (steps.extend)(store, rules, asked, ttl, known),
            Asks::Release => (steps.release)(store, rules, asked),
        };
        if request.asks == Asks::Acquire && self.store.lock != before {
            self.granted(rules);
        }
        if let Some(request) = self.request(who, which) {
            request.answer = Some(answer);
        }
        self.clients[who].answered(rules, which);
    }

    /// A new lock has the counter as its fence.
    fn granted(&mut self, rules: &Rules) {
        let fence = self.store.counter;
        if rules.is_one_tick && self.highest > 0 {
            self.broken = Some(Broken::Tick);
        } else if fence <= self.highest {
            self.broken = Some(Broken::Fence);
        }
        self.highest = self.highest.max(fence);
    }

    /// A clean-up takes a step: it releases. The clean-up of an acquire goes on until the acquire cannot arrive any
    /// more, or was released; but an acquire that was sent twice may be granted twice.
    pub(crate) fn settle(&mut self, rules: &Rules, steps: &Steps, who: usize, index: usize) {
        let Some(job) = self.clients[who].jobs[index] else { return };
        let asked = self.asked(who, job.number, 0);
        let answer = (steps.release)(&mut self.store, rules, asked);
        let is_proof = answer == Answer::Released && !job.is_again;
        if is_proof || job.sent.is_none_or(|sent| rules.is_late(sent)) {
            self.clients[who].jobs[index] = None;
        }
    }
}
