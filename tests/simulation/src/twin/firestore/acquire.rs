//! The twin of `acquire.rs` of the backend, without its message about an id with two keys.

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired};
use syncguard_core::{Contention, Fence, LockError};

use super::super::time;
use super::Firestore;
use super::attempts::{Again, Attempt, Attempts, Fault};
use crate::documents::{Change, Condition, Stored, Write};
use crate::flaw::Flaw;
use crate::protocol::{Record, Window};

/// How often another caller got the lock between two looks.
#[derive(Default)]
struct Races {
    lost: u32,
    last: Option<u64>,
}

impl Races {
    /// This many count as contention.
    const BOUND: u32 = 4;

    fn look(&mut self, last: u64) {
        if self.last.replace(last).is_some_and(|before| before < last) {
            self.lost += 1;
        }
    }
}

enum Look {
    Decided(AcquireResult),
    Free(Free),
}

/// A key that can be taken.
struct Free {
    lock: Option<Stored<Record>>,
    counter: Option<Stored<u64>>,
    last: u64,
    now: u64,
}

impl Firestore {
    pub(in crate::twin) async fn acquire(
        &self,
        request: &AcquireRequest,
        caller: &Caller,
    ) -> Result<AcquireResult, LockError> {
        let mut attempts = Attempts::new();
        let mut races = Races::default();
        let mut last_word = None;
        loop {
            let free = match self.look(request, attempts.attempt(), caller).await {
                Ok(Look::Decided(result)) => return Ok(result),
                Ok(Look::Free(free)) => free,
                Err(fault) => match last_word {
                    Some(error) => return Err(error),
                    None => {
                        attempts.again(fault).await?;
                        continue;
                    }
                },
            };
            races.look(free.last);
            let bound = if last_word.is_some() { 1 } else { Races::BOUND };
            if races.lost >= bound && attempts.attempt().lost.is_none() {
                return Ok(AcquireResult::Locked(Contention::unknown()));
            }
            if let Some(error) = last_word {
                return Err(error);
            }
            let fault = match self.grab(request, &attempts.attempt(), free, caller).await {
                Ok(acquired) => return Ok(AcquireResult::Acquired(acquired)),
                Err(fault) => fault,
            };
            let is_beaten = fault.again == Again::Conflict;
            match attempts.again(fault).await {
                Ok(()) => {}
                Err(error) if is_beaten => last_word = Some(error),
                Err(error) => return Err(error),
            }
        }
    }

    async fn look(
        &self,
        request: &AcquireRequest,
        attempt: Attempt,
        caller: &Caller,
    ) -> Result<Look, Fault> {
        caller.check()?;
        let (lock, counter) = self.documents(request.key.clone(), attempt).await?;
        let now = self.wire.wall();
        let held = lock.as_ref().filter(|lock| self.is_live(&lock.value));
        if let Some(own) = held.filter(|lock| lock.value.id == request.lock_id) {
            // The lock is ours already: the answer to an earlier commit was lost.
            let Record { id, fence, expires_at, .. } = own.value;
            self.remember(own.value.clone(), own.updated);
            let acquired = Acquired::new(id, time(expires_at)?, Fence::new(fence)?);
            return Ok(Look::Decided(AcquireResult::Acquired(acquired)));
        }
        let counted = counter.as_ref().map_or(0, |counter| counter.value);
        let last = counted.max(lock.as_ref().map_or(0, |lock| lock.value.fence));
        let window = request.fence_window.as_ref().map(Window::new);
        if let Some(taken) = window.and_then(|window| window.is_taken(last)) {
            return Ok(Look::Decided(AcquireResult::Refused(taken.refusal()?)));
        }
        if let Some(early) = window.and_then(|window| window.is_early(now)) {
            return Ok(Look::Decided(AcquireResult::Refused(early.refusal()?)));
        }
        if let Some(held) = held {
            let contention = Contention::until(time(held.value.expires_at)?, time(now)?);
            return Ok(Look::Decided(AcquireResult::Locked(contention)));
        }
        Ok(Look::Free(Free { lock, counter, last, now }))
    }

    /// Writes the lock and the counter together if both are as they were read.
    async fn grab(
        &self,
        request: &AcquireRequest,
        attempt: &Attempt,
        free: Free,
        caller: &Caller,
    ) -> Result<Acquired, Fault> {
        let (key, id) = (request.key.clone(), request.lock_id);
        let Free { lock, counter, last, now } = free;
        let window = request.fence_window.as_ref().map(Window::new);
        let fence = Window::fence(window.as_ref(), last);
        let expires_at = now + request.ttl.as_millis();
        let record = Record { key: key.clone(), id, fence, acquired_at: now, expires_at };
        let seen = time(counter.as_ref().map_or(0, |counter| counter.updated / 1000))?;
        let of_counter = if self.has(Flaw::UncheckedCounter) {
            Condition::None
        } else {
            Condition::as_read(counter.as_ref())
        };
        let writes = vec![
            Write {
                change: Change::Lock(record.clone()),
                condition: Condition::as_read(lock.as_ref()),
            },
            Write { change: Change::Counter(key, fence), condition: of_counter },
        ];
        caller.check()?;
        caller.sends(seen, attempt.call_bound());
        let updated = self.commit(writes, attempt).await?;
        self.remember(record, updated);
        Ok(Acquired::new(id, time(expires_at)?, Fence::new(fence)?))
    }
}
