//! All locks, and the invariants about fences and ends.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use super::found::Found;
use super::key::{Carried, Key};
use super::lock::{Lock, Open};
use super::micros;
use super::table::{Place, Table};
use super::turns::{Semaphores, Suspect};
use crate::event::{Answer, Call};
use crate::invariant::{Invariant, Limits};
use crate::operation::Operation;

/// How long after its end a lock is examined for the last time.
const MARGIN: Duration = Duration::from_secs(1);

#[derive(Debug, Default)]
pub(super) struct Locks {
    pub(super) table: Table,
    pub(super) keys: Vec<Key>,
    names: HashMap<Arc<str>, usize>,
    pub(super) semaphores: Semaphores,
    /// Two holders that may have relied on a key at the same time.
    pub(super) suspects: Vec<Suspect>,
    /// The times at which a lock may be forgotten.
    due: BinaryHeap<Reverse<(u64, Place)>>,
    /// Keys for which a caller got an answer that no known lock explains.
    pub(super) doubts: Vec<usize>,
    pub(super) now: u64,
}

impl Locks {
    /// All lines before `now` were examined, and all calls before `oldest` are answered.
    pub(super) fn passes(&mut self, now: u64, oldest: u64, limits: &Limits, found: &mut Found) {
        self.confirm(found);
        self.now = now;
        self.doubt(false, found);
        while let Some(Reverse((at, place))) = self.due.peek().copied() {
            if at >= now {
                break;
            }
            self.due.pop();
            let Some(lock) = self.table.get(place) else { continue };
            let over = lock.is_over_at();
            if lock.open.is_empty() && over < oldest && over + micros(MARGIN) <= now {
                self.forget(place, oldest, limits, found);
            } else {
                let again = (over + micros(MARGIN)).max(now + micros(MARGIN) / 2);
                self.due.push(Reverse((again, place)));
            }
        }
    }

    pub(super) fn called(&mut self, operation: &Operation) {
        let at = operation.called.steady;
        match &operation.call {
            Call::Acquire { key, lock, .. } => {
                let place = self.table.find(lock).unwrap_or_else(|| self.insert(key, lock, at));
                if let Some(lock) = self.table.get_mut(place) {
                    lock.open.push(Open { called: at, promised: None });
                }
            }
            Call::Extend { lock, ttl, .. } => {
                if let Some(lock) = self.known(lock) {
                    lock.open.push(Open { called: at, promised: Some(at + ttl * 1000) });
                }
            }
            Call::Release { lock } => {
                if let Some(lock) = self.known(lock) {
                    lock.is_given_up(at);
                }
            }
            _ => {}
        }
    }

    /// An operation has ended. `gone`: the time at which its caller was gone, if no caller was told the outcome.
    pub(super) fn closes(
        &mut self,
        operation: &Arc<Operation>,
        gone: u64,
        limits: &Limits,
        found: &mut Found,
    ) {
        match &operation.call {
            Call::Acquire { lock, ttl, .. } => {
                if let Some(place) = self.begins(lock, operation, gone, limits) {
                    self.acquired(place, operation, (*ttl, !limits.resent.is_zero()), found);
                    self.ends(place, limits, found);
                }
            }
            Call::Extend { lock, ttl, expected } => {
                if let Some(place) = self.begins(lock, operation, gone, limits) {
                    self.extended(place, operation, (*ttl, *expected), limits, found);
                    self.ends(place, limits, found);
                } else {
                    Self::of_nobody(operation, found);
                }
            }
            Call::Release { lock } => {
                if let Some(place) = self.begins(lock, operation, gone, limits) {
                    self.released(place, operation, limits, found);
                    self.ends(place, limits, found);
                } else {
                    Self::of_nobody(operation, found);
                }
            }
            _ => {}
        }
        if let Some(Answer::Found { lock, fence, acquired_at, expires_at }) = operation.answer()
            && let Some(place) = self.begins(lock, operation, gone, limits)
            && let Some(lock) = self.table.get_mut(place)
        {
            lock.life.says(operation, Some(*acquired_at), *expires_at);
            let may_be_again = !limits.resent.is_zero();
            self.has_fence(place, *fence, operation, may_be_again, found);
        }
        if let Some(key) = operation.was_told_locked() {
            self.told_locked(key, operation, found);
        }
    }

    /// The number of permits of a semaphore, by one of its users.
    pub(super) fn semaphore(&mut self, key: &str, permits: u64) {
        self.semaphores.has(key, permits);
    }

    pub(super) fn finish(&mut self, limits: &Limits, found: &mut Found) {
        self.confirm(found);
        self.now = u64::MAX;
        self.doubt(true, found);
        let mut left = self.table.places();
        left.sort_by_key(|place| self.table.get(*place).map(|lock| (lock.key, lock.began)));
        for place in left {
            self.forget(place, 0, limits, found);
        }
    }

    /// The number of lock ids, and of further facts.
    pub(super) fn retained(&self) -> (usize, usize) {
        let of_key = |key: &Key| {
            key.fences.len() + key.owners.len() + key.carried.len() + key.doubtful.len()
        };
        let carried: usize = self.keys.iter().map(of_key).sum();
        (self.table.len() + self.due.len(), carried + self.suspects.len())
    }

    fn known(&mut self, id: &str) -> Option<&mut Lock> {
        let place = self.table.find(id)?;
        self.table.get_mut(place)
    }

    fn insert(&mut self, key: &str, id: &str, at: u64) -> Place {
        let key = self.key(key);
        let place = self.table.insert(Lock::new(id, key, at));
        self.keys[key].locks.push(place);
        self.due.push(Reverse((at + micros(MARGIN), place)));
        place
    }

    pub(super) fn key(&mut self, name: &str) -> usize {
        if let Some(key) = self.names.get(name) {
            return *key;
        }
        let key = Key::new(name, self.semaphores.of_permit(name));
        self.names.insert(Arc::clone(&key.name), self.keys.len());
        self.keys.push(key);
        self.keys.len() - 1
    }

    /// An operation of a lock has ended: the part that is the same for all operations.
    fn begins(
        &mut self,
        id: &str,
        operation: &Arc<Operation>,
        gone: u64,
        limits: &Limits,
    ) -> Option<Place> {
        let place = self.table.find(id)?;
        let lock = self.table.get_mut(place)?;
        let called = operation.called.steady;
        let is_acquire = matches!(operation.call, Call::Acquire { .. });
        let is_this = |open: &Open| open.called == called && open.promised.is_none() == is_acquire;
        if matches!(operation.call, Call::Acquire { .. } | Call::Extend { .. })
            && let Some(index) = lock.open.iter().position(is_this)
        {
            lock.open.swap_remove(index);
        }
        lock.keep(operation);
        lock.last = lock.last.max(operation.over_at());
        lock.window.opens(operation, gone, limits);
        Some(place)
    }

    /// A lock that no caller can have got is forgotten at once.
    fn ends(&mut self, place: Place, limits: &Limits, found: &mut Found) {
        let Some(lock) = self.table.get(place) else { return };
        let key = lock.key;
        if lock.open.is_empty() && lock.could_live().is_none() && lock.fence.is_none() {
            self.forget(place, 0, limits, found);
        }
        if !self.keys[key].doubtful.is_empty() {
            self.doubts.push(key);
        }
    }

    fn acquired(
        &mut self,
        place: Place,
        operation: &Arc<Operation>,
        (ttl, may_be_again): (u64, bool),
        found: &mut Found,
    ) {
        let Some(Answer::Acquired { fence, expires_at }) = operation.answer() else { return };
        let Some(lock) = self.table.get_mut(place) else { return };
        let is_first = lock.grant.is_none();
        if is_first {
            lock.life.says(operation, Some(expires_at.saturating_sub(ttl)), *expires_at);
            let relies = lock.is_granted(operation, ttl, *fence);
            if relies {
                self.relies(place, operation.over_at());
            }
        }
        self.has_fence(place, *fence, operation, may_be_again, found);
        if is_first && let Some(lock) = self.table.get(place) {
            self.keys[lock.key].granted(*fence, operation, found);
        }
    }

    /// One fence for each lock id, and one lock id for each fence.
    fn has_fence(
        &mut self,
        place: Place,
        fence: u64,
        operation: &Arc<Operation>,
        may_be_again: bool,
        found: &mut Found,
    ) {
        let Some(lock) = self.table.get_mut(place) else { return };
        let key = &mut self.keys[lock.key];
        // An acquire that was carried out once more, before its holder was told or after it had given up, is another
        // lock with the same id.
        let is_seen = |it: &Operation| matches!(it.answer(), Some(Answer::Found { .. }));
        if let Some((first, before)) = lock.fence.as_ref().filter(|_| may_be_again)
            && *first < fence
            && (is_seen(before) || is_seen(operation) && lock.is_let_go())
        {
            key.former.push(*first);
            lock.fence = Some((fence, Arc::clone(operation)));
            lock.life.restarts(operation);
        }
        let mut broken = |what: String, before: &Arc<Operation>| {
            let proof = [Arc::clone(before), Arc::clone(operation)];
            found.add(Invariant::FencesGrow, what, proof);
        };
        let (first, before) = lock.fence.get_or_insert_with(|| (fence, Arc::clone(operation)));
        if *first != fence {
            let what = format!("one lock of {:?} with two fences, {first} and {fence}", key.name);
            broken(what, before);
        }
        let owner = || (Arc::clone(&lock.id), Arc::clone(operation));
        let (owner, before) = key.owners.entry(fence).or_insert_with(owner);
        if *owner != lock.id {
            broken(format!("two locks of {:?} with the fence {fence}", key.name), before);
        }
    }

    fn extended(
        &mut self,
        place: Place,
        operation: &Arc<Operation>,
        (ttl, expected): (u64, Option<u64>),
        limits: &Limits,
        found: &mut Found,
    ) {
        self.stays_over(place, operation, limits, found);
        let Some(lock) = self.table.get_mut(place) else { return };
        let relies = lock.is_prolonged(operation, ttl);
        match operation.answer() {
            Some(Answer::Extended { expires_at }) => {
                lock.life.says(operation, None, *expires_at);
                lock.life.is_confirmed(operation.called.steady);
            }
            Some(Answer::Mismatch { expires_at }) => lock.life.says(operation, None, *expires_at),
            // An earlier sending may have been carried out, if there was one.
            Some(Answer::NotHeld) if limits.retried_extends || !limits.resent.is_zero() => {
                lock.life.may_be_shorter(operation.called, ttl, expected);
            }
            _ if operation.is_unknown() => {
                lock.life.may_be_shorter(operation.called, ttl, expected);
            }
            _ => {}
        }
        if relies {
            self.relies(place, operation.over_at());
        }
    }

    fn released(
        &mut self,
        place: Place,
        operation: &Arc<Operation>,
        limits: &Limits,
        found: &mut Found,
    ) {
        self.stays_over(place, operation, limits, found);
        let Some(lock) = self.table.get_mut(place) else { return };
        if !matches!(operation.answer(), Some(Answer::NotHeld)) {
            lock.life.may_be_freed(operation.called);
        }
        if let Some((at, Answer::Released)) = &operation.answered {
            lock.window.closes(at.steady);
            if lock.window.may_be_again(operation.called.steady) {
                // This may be the answer to the second sending.
            } else if let Some(before) = &lock.released {
                let what = format!("a lock of {:?} was released twice", self.keys[lock.key].name);
                let proof = [Arc::clone(before), Arc::clone(operation)];
                found.add(Invariant::ReleasedOnce, what, proof);
            } else {
                lock.released = Some(Arc::clone(operation));
            }
        }
    }

    /// A lock that was over is not held again. Returns true if this answer means that the lock is over.
    fn stays_over(
        &mut self,
        place: Place,
        operation: &Arc<Operation>,
        limits: &Limits,
        found: &mut Found,
    ) {
        let Some(lock) = self.table.get(place) else { return };
        // Before the grant, "not held" says nothing about the lock's end.
        let Some((at, answer)) = &operation.answered else { return };
        if is_held(answer)
            && let Some(grant) = &lock.grant
        {
            let taken = self.taken_over(lock.key, grant.fence);
            let over = lock.over.clone().into_iter().chain(taken).min_by_key(|(at, _)| *at);
            // A resent release may find the result of its earlier sending.
            let is_again =
                *answer == Answer::Released && lock.window.may_be_again(operation.called.steady);
            let over = over.filter(|(at, _)| *at < operation.called.steady && !is_again);
            if let Some((_, end)) = over {
                let name = &self.keys[lock.key].name;
                let what = format!("a lock of {name:?} that was over was held again");
                let proof = [Arc::clone(&grant.operation), end, Arc::clone(operation)];
                found.add(Invariant::OverForGood, what, proof);
            }
        }
        let is_over = match answer {
            Answer::Released => true,
            Answer::NotHeld => {
                lock.grant.as_ref().is_some_and(|it| it.answered <= operation.called.steady)
                    && lock.life.is_over_by_all(operation.called, limits)
            }
            _ => false,
        };
        let at = at.steady;
        if is_over && let Some(lock) = self.table.get_mut(place).filter(|it| it.over.is_none()) {
            lock.over = Some((at, Arc::clone(operation)));
        }
    }

    /// The first time at which a caller was told of a higher fence.
    fn taken_over(&self, key: usize, fence: u64) -> Option<(u64, Arc<Operation>)> {
        let key = &self.keys[key];
        if key.fences.highest().is_none_or(|highest| highest <= fence) {
            return None;
        }
        let locks = key.locks.iter().filter_map(|place| self.table.get(*place)?.grant.as_ref());
        let locks = locks.filter(|grant| grant.fence > fence);
        let locks = locks.map(|grant| (grant.answered, &grant.operation));
        let carried = key.carried.iter().filter_map(|carried| {
            let (other, answered) = carried.granted?;
            (other > fence).then_some((answered, &carried.proof))
        });
        let first = locks.chain(carried).min_by_key(|(at, _)| *at);
        first.map(|(at, operation)| (at, Arc::clone(operation)))
    }

    /// An operation used an id that is forgotten because its lock ended long ago.
    fn of_nobody(operation: &Arc<Operation>, found: &mut Found) {
        if operation.answer().is_some_and(is_held) {
            let what = "a lock that nobody has asked for, or that was over for long, was held";
            found.add(Invariant::OverForGood, what.to_owned(), [Arc::clone(operation)]);
        }
    }

    fn forget(&mut self, place: Place, oldest: u64, limits: &Limits, found: &mut Found) {
        let Some(lock) = self.table.remove(place) else { return };
        let key = &mut self.keys[lock.key];
        key.locks.retain(|other| *other != place);
        key.fences.forget(oldest);
        // The owner of the highest fence is never forgotten.
        if let Some((fence, _)) = &lock.fence {
            let highest = key.fences.highest();
            let over = std::mem::take(&mut key.former).into_iter().chain([*fence]);
            let (kept, over): (Vec<u64>, Vec<u64>) =
                over.partition(|fence| highest == Some(*fence));
            key.former = kept;
            for fence in over {
                key.owners.remove(&fence);
            }
        }
        let life = lock.life(limits);
        if let Some(life) = life {
            key.takes_its_turn(&lock, life, found);
        }
        if let Some((_, seen)) = &lock.fence {
            let granted = lock.grant.as_ref().map(|grant| (grant.fence, grant.answered));
            let forgotten = self.now;
            let carried = Carried { forgotten, life, granted, proof: Arc::clone(seen) };
            let is_longer =
                key.longest.as_ref().is_none_or(|it| it.life.map(|it| it.1) < life.map(|it| it.1));
            if is_longer && life.is_some() {
                key.longest = Some(carried.clone());
            }
            key.carried.push_back(carried);
        }
        let began = key.locks.iter().filter_map(|place| self.table.get(*place)).map(|it| it.began);
        let first = began.min().unwrap_or(self.now);
        while key.carried.front().is_some_and(|carried| carried.forgotten < first) {
            key.carried.pop_front();
        }
    }
}

fn is_held(answer: &Answer) -> bool {
    // A lock with another expiry than expected is held as well.
    matches!(answer, Answer::Extended { .. } | Answer::Mismatch { .. } | Answer::Released)
}

impl Key {
    /// An acquire that is called after another one was granted gets a higher fence.
    fn granted(&mut self, fence: u64, operation: &Arc<Operation>, found: &mut Found) {
        if let Some((higher, before)) = self.fences.higher(fence, operation.called.steady) {
            let what = format!("the fence {fence} was granted after {higher}");
            found.add(Invariant::FencesGrow, what, [Arc::clone(before), Arc::clone(operation)]);
        }
        self.fences.climb(operation.over_at(), fence, operation);
    }

    /// The same by the store's clock.
    fn takes_its_turn(&self, lock: &Lock, (from, until): (u64, u64), found: &mut Found) {
        let others = self.carried.iter().chain(&self.longest);
        let overlaps =
            |other: &&Carried| other.life.is_some_and(|life| from < life.1 && life.0 < until);
        if let Some(other) = others.filter(overlaps).max_by_key(|it| it.life.map(|it| it.1)) {
            let (start, end) = other.life.unwrap_or_default();
            let what = format!(
                "two locks of {:?} lived, from {start} to at least {end} and from {from} to at \
                 least {until} ms",
                self.name
            );
            let proof = [Arc::clone(&other.proof)].into_iter().chain(lock.proof());
            found.add(Invariant::LocksTakeTurns, what, proof);
        }
    }
}
