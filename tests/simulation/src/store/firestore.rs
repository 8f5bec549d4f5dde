//! The part of Firestore that locks need: documents that are read together, and commits with preconditions.

use std::collections::HashMap;

use syncguard_core::{Key, LockId};

use super::Atomic;
use crate::documents::{Change, Condition, Read, Stored, Write};
use crate::protocol::{Record, Reply, Request};

/// A database. A commit is atomic.
#[derive(Debug, Default)]
pub(crate) struct Firestore {
    locks: HashMap<Key, Stored<Record>>,
    ids: HashMap<LockId, Key>,
    counters: HashMap<Key, Stored<u64>>,
    /// The time of the last commit, in microseconds. The next commit has a later time.
    last: u64,
    commits: u64,
}

/// One of this many commits is refused because others are in progress, as the server may do.
const REFUSED: u64 = 211;

impl Firestore {
    fn holds(&self, Write { change, condition }: &Write) -> bool {
        let updated = match change {
            Change::Lock(Record { key, .. }) | Change::Expiry(key, _) | Change::NoLock(key) => {
                self.locks.get(key).map(|it| it.updated)
            }
            Change::Counter(key, _) => self.counters.get(key).map(|it| it.updated),
        };
        match condition {
            Condition::Absent => updated.is_none(),
            Condition::Updated(seen) => updated == Some(*seen),
            Condition::None => true,
        }
    }

    fn commit(&mut self, now: u64, writes: &[Write]) -> (Reply, Option<Key>) {
        self.commits += 1;
        let is_refused = self.commits.is_multiple_of(REFUSED);
        if is_refused || !writes.iter().all(|write| self.holds(write)) {
            return (Reply::Conflict, None);
        }
        self.last = (now * 1000).max(self.last + 1);
        let (updated, mut freed) = (self.last, None);
        for Write { change, .. } in writes {
            match change.clone() {
                Change::Lock(record) => {
                    self.ids.insert(record.id, record.key.clone());
                    let stored = Stored { value: record.clone(), updated };
                    let before = self.locks.insert(record.key, stored);
                    if let Some(before) = before.filter(|before| before.value.id != record.id) {
                        self.ids.remove(&before.value.id);
                    }
                }
                // A write without a change leaves the document and its time as they were.
                Change::Expiry(key, expires_at) => {
                    if let Some(lock) = self.locks.get_mut(&key)
                        && lock.value.expires_at != expires_at
                    {
                        lock.value.expires_at = expires_at;
                        lock.updated = updated;
                    }
                }
                Change::NoLock(key) => {
                    if let Some(lock) = self.locks.remove(&key) {
                        self.ids.remove(&lock.value.id);
                        freed = Some(key);
                    }
                }
                Change::Counter(key, value) => {
                    self.counters.insert(key, Stored { value, updated });
                }
            }
        }
        (Reply::Committed { updated }, freed)
    }
}

impl Atomic for Firestore {
    fn carry_out(&mut self, now: u64, request: &Request) -> (Reply, Option<Key>) {
        match request {
            Request::Read(Read::Documents(key)) => {
                let (lock, counter) = (self.locks.get(key), self.counters.get(key));
                let reply = Reply::Documents { lock: lock.cloned(), counter: counter.cloned() };
                (reply, None)
            }
            Request::Read(Read::Query(id)) => {
                let lock = self.ids.get(id).and_then(|key| self.locks.get(key));
                (Reply::Documents { lock: lock.cloned(), counter: None }, None)
            }
            Request::Commit(writes) => self.commit(now, writes),
            _ => (Reply::Time { now }, None),
        }
    }

    fn live(&mut self, now: u64) -> u64 {
        self.locks.values().filter(|lock| lock.value.is_live(now)).count() as u64
    }
}
