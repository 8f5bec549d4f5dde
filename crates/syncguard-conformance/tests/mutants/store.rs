//! A store in memory, correct unless it has a flaw.
//!
//! Each method is one atomic step of the server. The steps of operations with a flaw in their atomicity are separate,
//! so that [`backend`](crate::mutants::backend) can put a gap between them.

mod acquire;
mod hint;
mod list;
mod look;
mod own;
mod watch;
mod window;

use std::collections::HashMap;

use syncguard_core::authoring::corrupt_record;
use syncguard_core::contract::{AcquireRequest, Acquired, Holder, KeySignal};
use syncguard_core::{Fence, Key, LockError, LockId, Timestamp, Ttl};

use crate::mutants::flaws::Flaw;
use crate::mutants::keys;

#[derive(Debug, Default)]
pub(crate) struct Store {
    flaw: Option<Flaw>,
    locks: HashMap<String, Stored>,
    /// The index from lock id to key. An entry may be outdated: the lock itself has the valid id.
    index: HashMap<LockId, Entry>,
    fences: HashMap<String, u64>,
    /// State that only the flaws use.
    refused: Vec<LockId>,
    granted: HashMap<LockId, Acquired>,
    ended: HashMap<String, Record>,
    newest: Option<LockId>,
    used_places: Vec<String>,
    /// Each watch signals once.
    watches: HashMap<String, Vec<KeySignal>>,
    /// Watches that never signal.
    lost: Vec<KeySignal>,
}

#[derive(Clone, Debug)]
pub(crate) enum Stored {
    Lock(Record),
    Garbage,
}

#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) acquired_at: u64,
    pub(crate) expires_at: u64,
    pub(crate) fence: u64,
    pub(crate) holder: Option<Holder>,
    pub(crate) is_extended: bool,
}

#[derive(Clone, Debug)]
struct Entry {
    name: String,
    /// The end of an index entry that has a TTL of its own.
    until: u64,
}

impl Store {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self { flaw, ..Self::default() }
    }

    pub(crate) fn flaw(&self) -> Option<Flaw> {
        self.flaw
    }

    pub(crate) fn set_fence_counter(&mut self, key: &Key, last: Fence) {
        if !self.has(Flaw::ignores_the_counter_from_outside) {
            self.fences.insert(self.counter(key), last.get());
        }
    }

    pub(crate) fn make_garbage(&mut self, key: &Key) {
        let name = self.name(key);
        self.locks.insert(name, Stored::Garbage);
    }

    /// The lock with this id, live or not.
    fn find(
        &mut self,
        lock_id: LockId,
        now: u64,
        trusts_the_index: bool,
    ) -> Result<Option<(String, Record)>, LockError> {
        let Some(entry) = self.index.get(&lock_id).filter(|entry| now < entry.until) else {
            return Ok(None);
        };
        let trusts_the_index = trusts_the_index
            || self.has(Flaw::indexes_refused_ids)
            || self.has(Flaw::release_keeps_the_id);
        match self.locks.get(&entry.name) {
            Some(Stored::Garbage) if self.has(Flaw::does_not_say_that_records_are_lost) => {
                Err(LockError::internal("it is garbage"))
            }
            Some(Stored::Garbage) => Err(corrupt_record(&entry.name, "it is garbage")),
            Some(Stored::Lock(lock)) if lock.lock_id == lock_id || trusts_the_index => {
                Ok(Some((entry.name.clone(), lock.clone())))
            }
            None if self.has(Flaw::release_keeps_the_id) => {
                let ended = self.ended.get(&entry.name);
                Ok(ended.map(|lock| (entry.name.clone(), lock.clone())))
            }
            _ => Ok(None),
        }
    }

    /// The id that an operation uses.
    fn addressed(&self, lock_id: LockId, unless: Flaw) -> LockId {
        match self.newest {
            Some(newest) if self.has(unless) => newest,
            _ => lock_id,
        }
    }

    /// The lock that a request asks for, with this fence.
    fn record(&self, request: &AcquireRequest, now: u64, fence: u64) -> Record {
        Record {
            key: request.key.clone(),
            lock_id: request.lock_id,
            acquired_at: now,
            expires_at: now + self.ttl(request.ttl),
            fence,
            holder: request.holder.clone(),
            is_extended: false,
        }
    }

    fn ttl(&self, ttl: Ttl) -> u64 {
        match self.flaw {
            Some(Flaw::caps_the_ttl) => ttl.as_millis().min(u64::from(u32::MAX)),
            Some(Flaw::counts_in_seconds) => ttl.as_millis() / 1000 * 1000,
            Some(Flaw::adds_the_tolerance_to_the_expiry) => ttl.as_millis() + TOLERANCE,
            _ => ttl.as_millis(),
        }
    }

    fn check_key(&self, key: &Key) -> Result<(), LockError> {
        let refused = match self.flaw {
            Some(Flaw::refuses_long_keys) => key.expose().len() > 255,
            Some(Flaw::refuses_dots) => matches!(key.expose(), "." | ".."),
            _ => false,
        };
        if refused { Err(LockError::invalid_argument("not such a key")) } else { Ok(()) }
    }

    fn corrupt(&self, key: &Key, name: &str) -> LockError {
        if self.has(Flaw::shows_the_key_in_errors) {
            return LockError::internal(format!("the record of {} is garbage", key.expose()));
        }
        corrupt_record(name, "it is garbage")
    }

    fn name(&self, key: &Key) -> String {
        keys::name(self.flaw, key)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

const TOLERANCE: u64 = 1000;

fn is_live(flaw: Option<Flaw>, expires_at: u64, now: u64) -> bool {
    let tolerance = match flaw {
        Some(Flaw::has_no_tolerance) => 0,
        Some(Flaw::has_twice_the_tolerance) => 2 * TOLERANCE,
        Some(Flaw::has_a_millisecond_too_much) => TOLERANCE + 1,
        Some(Flaw::has_a_millisecond_too_little) => TOLERANCE - 1,
        _ => TOLERANCE,
    };
    expires_at + tolerance > now
}

fn lock_is_long_over(stored: Option<&Stored>, now: u64) -> bool {
    matches!(stored, Some(Stored::Lock(lock)) if lock.expires_at + TOLERANCE + 2000 < now)
}

fn timestamp(millis: u64) -> Result<Timestamp, LockError> {
    Timestamp::from_millis(millis)
}
