//! The Firestore backend. It reads, decides by the clock of its own machine, and writes if the documents are as they
//! were read.

mod acquire;
mod attempts;
mod counter;
mod held;
mod settle;

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use syncguard_core::{Key, LockError, LockId};
use tokio::time::Instant;

use self::attempts::{Attempt, Attempts, Fault};
use super::unintelligible;
use super::wire::Wire;
use crate::documents::{Read, Stored, Write};
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply, Request, TOLERANCE};

/// The size of its memory of locks. When it is full, it forgets them all. It is small, so that the backend has to
/// ask.
const REMEMBERED: usize = 64;

pub(super) struct Firestore {
    pub(super) wire: Wire,
    /// Its last writes of its own locks: as `cache.rs`.
    known: Mutex<HashMap<LockId, Stored<Record>>>,
    flaw: Option<Flaw>,
}

impl Firestore {
    pub(super) fn new(wire: Wire, flaw: Option<Flaw>) -> Self {
        Self { wire, known: Mutex::default(), flaw }
    }

    pub(super) async fn by_key(&self, key: Key) -> Result<Option<Record>, LockError> {
        let read = |attempt: Attempt| self.documents(key.clone(), attempt);
        let (lock, _) = Attempts::new().run(read).await?;
        Ok(lock.map(|lock| lock.value).filter(|lock| self.is_live(lock)))
    }

    pub(super) async fn by_id(&self, id: LockId) -> Result<Option<Record>, LockError> {
        let found = Attempts::new().run(|attempt| self.query(id, attempt)).await?;
        Ok(found.map(|lock| lock.value).filter(|lock| self.is_live(lock)))
    }

    /// By this machine's clock.
    fn is_live(&self, lock: &Record) -> bool {
        let tolerance = if self.has(Flaw::HastyClients) { 0 } else { TOLERANCE };
        lock.expires_at + tolerance > self.wire.wall()
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Lock and counter of a key.
    async fn documents(
        &self,
        key: Key,
        attempt: Attempt,
    ) -> Result<(Option<Stored<Record>>, Option<Stored<u64>>), Fault> {
        let request = Request::Read(Read::Documents(key));
        match self.call(request, attempt.call_deadline()).await? {
            Reply::Documents { lock, counter } => Ok((lock, counter)),
            _ => Err(unintelligible().into()),
        }
    }

    async fn query(&self, id: LockId, attempt: Attempt) -> Result<Option<Stored<Record>>, Fault> {
        let request = Request::Read(Read::Query(id));
        match self.call(request, attempt.call_deadline()).await? {
            Reply::Documents { lock, .. } => Ok(lock.filter(|lock| lock.value.id == id)),
            _ => Err(unintelligible().into()),
        }
    }

    /// The time of the write.
    async fn commit(&self, writes: Vec<Write>, attempt: &Attempt) -> Result<u64, Fault> {
        match self.call(Request::Commit(writes), attempt.call_deadline()).await? {
            Reply::Committed { updated } => Ok(updated),
            Reply::Conflict => Err(Fault::conflict()),
            _ => Err(unintelligible().into()),
        }
    }

    async fn call(&self, request: Request, until: Instant) -> Result<Reply, Fault> {
        Ok(self.wire.ask(request, until).await?)
    }

    fn remember(&self, record: Record, updated: u64) {
        let mut known = self.known();
        if known.len() >= REMEMBERED {
            known.clear();
        }
        // The answers of two concurrent extends may come in the other order.
        if known.get(&record.id).is_none_or(|before| before.updated <= updated) {
            known.insert(record.id, Stored { value: record, updated });
        }
    }

    /// Takes the knowledge of a lock out, because the caller will change the lock.
    fn take(&self, id: LockId) -> Option<Stored<Record>> {
        self.known().remove(&id)
    }

    fn take_live(&self, id: LockId) -> Option<Stored<Record>> {
        self.take(id).filter(|lock| self.is_live(&lock.value))
    }

    fn known(&self) -> MutexGuard<'_, HashMap<LockId, Stored<Record>>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
