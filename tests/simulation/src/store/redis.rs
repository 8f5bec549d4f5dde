//! The scripts of `syncguard-redis/src/lua`, line by line, without the holder field, which decides nothing.

use std::collections::HashMap;

use syncguard_core::{Key, LockId};

use super::Atomic;
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply, Request, TOLERANCE, Window};

/// A server. A script is atomic.
#[derive(Debug, Default)]
pub(crate) struct Redis {
    /// Names that expire, like those with PX.
    locks: HashMap<Key, (Record, u64)>,
    index: HashMap<LockId, (Key, u64)>,
    counters: HashMap<Key, u64>,
    flaw: Option<Flaw>,
    /// The number of requests.
    count: u64,
    released: std::collections::HashSet<LockId>,
}

impl Redis {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Returns true once in this many calls, for flaws.
    fn one_of(&self, many: u64) -> bool {
        self.count.is_multiple_of(many)
    }

    /// `GET` of a lock.
    fn lock(&mut self, key: &Key, now: u64) -> Option<&mut Record> {
        if self.locks.get(key).is_some_and(|(_, until)| *until <= now) {
            self.locks.remove(key);
        }
        self.locks.get_mut(key).map(|(record, _)| record)
    }

    /// `GET` of an index entry.
    fn named(&mut self, id: &LockId, now: u64) -> Option<Key> {
        if self.index.get(id).is_some_and(|(_, until)| *until <= now) {
            self.index.remove(id);
        }
        self.index.get(id).map(|(key, _)| key.clone())
    }

    /// acquire.lua
    fn acquire(
        &mut self,
        now: u64,
        (key, id, ttl): (&Key, LockId, u64),
        window: Option<&Window>,
    ) -> Reply {
        let takes_over = self.has(Flaw::SecondHolder) && self.one_of(50);
        let tolerance = if self.has(Flaw::NoTolerance) { 0 } else { TOLERANCE };
        let held = self.lock(key, now).filter(|held| held.expires_at + tolerance > now).cloned();
        if let Some(Record { fence, expires_at, .. }) = held.as_ref().filter(|held| held.id == id) {
            return Reply::Granted { fence: *fence, expires_at: *expires_at, is_fresh: false };
        }
        let counter = self.counters.get(key).copied().unwrap_or(0);
        let limited = window.filter(|_| !self.has(Flaw::EndlessWindow));
        if let Some(why) = limited.and_then(|window| window.is_taken(counter)) {
            return Reply::Refused { why, now };
        }
        let timed = window.filter(|_| !self.has(Flaw::EarlyWindow));
        if let Some(why) = timed.and_then(|window| window.is_early(now)) {
            return Reply::Refused { why, now };
        }
        if let Some(held) = held.filter(|_| !takes_over) {
            return Reply::Held { expires_at: held.expires_at, now };
        }
        let repeats = self.has(Flaw::RepeatedFence) && self.one_of(50);
        let fence = if repeats && counter > 0 { counter } else { Window::fence(window, counter) };
        self.counters.insert(key.clone(), fence);
        let expires_at = now + ttl;
        let long = self.has(Flaw::LongLife) && self.one_of(20);
        let stored = if long { expires_at + 60_000 } else { expires_at };
        let until = stored + TOLERANCE;
        self.index.insert(id, (key.clone(), until));
        let record = Record { key: key.clone(), id, fence, acquired_at: now, expires_at: stored };
        self.locks.insert(key.clone(), (record, until));
        Reply::Granted { fence, expires_at, is_fresh: true }
    }

    /// extend.lua
    fn extend(&mut self, now: u64, id: LockId, ttl: u64, expected: Option<u64>) -> Reply {
        let is_blind = self.has(Flaw::BlindExtends);
        let expired = |is_expired| Reply::NotHeld { is_expired, now };
        if self.has(Flaw::Undead) && self.one_of(3) && self.named(&id, now).is_none() {
            return Reply::Extended { expires_at: now + ttl };
        }
        let Some(key) = self.named(&id, now) else { return expired(false) };
        let Some(record) = self.lock(&key, now).filter(|record| record.id == id) else {
            return expired(false);
        };
        if !record.is_live(now) {
            return expired(true);
        }
        if let Some(expected) = expected
            && expected != record.expires_at
            && !is_blind
        {
            return Reply::Mismatch { expires_at: record.expires_at };
        }
        // Each extend changes the expiry, so that an older extend with the old expiry comes too late.
        let expires_at = now + ttl + u64::from(now + ttl == record.expires_at);
        record.expires_at = expires_at;
        let until = expires_at + TOLERANCE;
        if let Some((_, lives)) = self.locks.get_mut(&key) {
            *lives = until;
        }
        if let Some((_, lives)) = self.index.get_mut(&id) {
            *lives = until;
        }
        Reply::Extended { expires_at }
    }

    /// release.lua
    fn release(&mut self, now: u64, id: LockId) -> (Reply, Option<Key>) {
        let expired = |is_expired| (Reply::NotHeld { is_expired, now }, None);
        if self.has(Flaw::EndlessRelease) && !self.released.insert(id) {
            return (Reply::Released, None);
        }
        let Some(key) = self.named(&id, now) else { return expired(false) };
        let Some(record) = self.lock(&key, now).filter(|record| record.id == id) else {
            return expired(false);
        };
        if !record.is_live(now) {
            return expired(true);
        }
        if self.has(Flaw::Orphans) && self.one_of(20) {
            return (Reply::Released, None);
        }
        self.locks.remove(&key);
        self.index.remove(&id);
        (Reply::Released, Some(key))
    }

    fn found(&mut self, now: u64, key: &Key) -> Option<Record> {
        self.lock(key, now).filter(|record| record.is_live(now)).cloned()
    }
}

impl Atomic for Redis {
    fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>) {
        self.count += 1;
        if request.deadline().is_some_and(|deadline| now > deadline)
            && !self.has(Flaw::LateRequests)
        {
            return (Reply::Late { now }, None);
        }
        let reply = match request {
            Request::Acquire { key, id, ttl, window, .. } => {
                self.acquire(now, (key, *id, *ttl), window.as_ref())
            }
            Request::Extend { id, ttl, expected, .. } => self.extend(now, *id, *ttl, *expected),
            Request::Release { id, .. } => return self.release(now, *id),
            Request::IsLocked { key } => Reply::Is(self.found(now, key).is_some()),
            Request::Counter { key } => Reply::Counter(self.counters.get(key).copied()),
            Request::Raise { key, at_least } => {
                let counter = self.counters.entry(key.clone()).or_default();
                *counter = (*counter).max(*at_least);
                Reply::Counter(Some(*counter))
            }
            Request::ByKey { key } => Reply::Found(self.found(now, key)),
            Request::ById { id } => {
                let found = self.named(id, now).and_then(|key| self.found(now, &key));
                Reply::Found(found.filter(|record| record.id == *id))
            }
            _ => Reply::Time { now },
        };
        if self.count.is_multiple_of(100_000) {
            self.index.retain(|_, (_, until)| *until > now);
            self.locks.retain(|_, (_, until)| *until > now);
        }
        (reply, None)
    }

    fn live(&mut self, now: u64) -> u64 {
        self.locks.values().filter(|(record, until)| *until > now && record.is_live(now)).count()
            as u64
    }
}
