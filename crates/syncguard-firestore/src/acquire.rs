//! Taking a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::authoring::{Attempt, Fault, StoreTime, lock_id_in_use};
use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired, is_live};
use syncguard_core::{Contention, Fence, LockError, Timestamp};

use crate::document::{Counter, Record, last_fence, put};
use crate::inner::Inner;
use crate::names::Names;

/// Sends one read and one commit; the commit's preconditions cover all documents that the decision was
/// based on.
///
/// After a commit that lost against another writer, the next read shows why. If a rival got the lock
/// meanwhile, that is contention, even if the key is free again. That read is already paid for, so a key
/// that is free again is tried a few more times. The caller decides whether to wait longer, and never gets
/// an error because rivals were faster.
///
/// Once the `caller` has gone, no more commits are sent: a lock that is not taken need not be released.
pub(crate) async fn acquire(
    inner: Arc<Inner>,
    request: AcquireRequest,
    caller: Caller<Fence>,
) -> Result<AcquireResult, LockError> {
    let subject = |error: LockError| error.with_key(&request.key).with_lock_id(request.lock_id);
    let names = inner.layout.names(&request.key).map_err(subject)?;
    let known = inner.known.look(&request.lock_id, |known| known.version.name.clone());
    let other_lock = known.filter(|name| *name != names.lock);
    let target = Target { request: &request, names: &names, other_lock: other_lock.as_deref() };
    let mut attempts = inner.attempts();
    let mut races = Races::default();
    // Set once the retries are used up: the error if the last read shows no rival.
    let mut last_error = None;
    // The earliest expiry of a lock that one of our commits may have taken.
    let mut first_expiry = None;
    loop {
        let free = match look(&inner, &target, first_expiry, &attempts.attempt(), &caller).await {
            Ok(Look::Decided(result)) => return Ok(result),
            Ok(Look::Free(free)) => free,
            Err(fault) => match last_error {
                Some(error) => return Err(error),
                None => {
                    attempts.again(fault).await.map_err(subject)?;
                    continue;
                }
            },
        };
        races.observe(free.last_fence);
        // If one of our commits may have been carried out, the new fences may be our own.
        let bound = if last_error.is_some() { 1 } else { Races::BOUND };
        if races.lost >= bound && attempts.attempt().lost.is_none() {
            return Ok(AcquireResult::Busy(Contention::unknown()));
        }
        if let Some(error) = last_error {
            return Err(error);
        }
        first_expiry.get_or_insert(free.time.latest.plus(request.ttl)?);
        let fault = match take(&inner, &target, &attempts.attempt(), free, &caller).await {
            Ok(acquired) => return Ok(AcquireResult::Acquired(acquired)),
            Err(fault) => fault,
        };
        let lost_race = fault.is_conflict();
        match attempts.again(fault).await.map_err(subject) {
            Ok(()) => {}
            Err(error) if lost_race => last_error = Some(error),
            Err(error) => return Err(error),
        }
    }
}

/// Counts how often a rival got the lock between two reads.
#[derive(Default)]
struct Races {
    lost: u32,
    last_fence: Option<Fence>,
}

impl Races {
    /// After this many lost races the acquire answers `Locked`.
    const BOUND: u32 = 4;

    fn observe(&mut self, last_fence: Fence) {
        if self.last_fence.replace(last_fence).is_some_and(|before| before < last_fence) {
            self.lost += 1;
        }
    }
}

/// The request and the names of its documents.
struct Target<'a> {
    request: &'a AcquireRequest,
    names: &'a Names,
    /// The document of another key that was last known to hold this lock id.
    other_lock: Option<&'a str>,
}

/// The result of a read.
enum Look {
    Decided(AcquireResult),
    Free(Free),
}

/// A key that can be taken.
struct Free {
    lock: Option<Record>,
    counter: Option<Counter>,
    /// The highest known fence of the key.
    last_fence: Fence,
    time: StoreTime,
}

async fn look(
    inner: &Inner,
    target: &Target<'_>,
    first_expiry: Option<Timestamp>,
    attempt: &Attempt,
    caller: &Caller<Fence>,
) -> Result<Look, Fault> {
    caller.check()?;
    let (names, request) = (target.names, target.request);
    let (lock, fence) = (names.lock.as_str(), names.fence.as_str());
    let [lock, counter, other] = match target.other_lock {
        None => {
            let [lock, counter] = inner.read([lock, fence], attempt).await?;
            [lock, counter, None]
        }
        Some(other) => inner.read([lock, fence, other], attempt).await?,
    };
    let lock = lock.map(Record::read).transpose()?;
    let time = inner.time()?;
    let now = time.earliest;
    let held = lock.as_ref().filter(|lock| lock.is_live(now));
    if let Some(held) = held.filter(|held| held.lock_id == request.lock_id) {
        // We hold the lock already: the answer to an earlier commit was lost.
        inner.remember(request.lock_id, &held.version, held.expires_at);
        let granted = Acquired::new(request.lock_id, held.expires_at, held.fence);
        return Ok(Look::Decided(AcquireResult::Acquired(granted)));
    }
    // One lock id has one fence. Others may have seen the lock of the lost commit, and its time is over.
    if let Some(lost) = &attempt.lost
        && first_expiry.is_some_and(|first| !is_live(first, time.latest))
    {
        return Err(lost.clone().into());
    }
    let refused = |refusal| Ok(Look::Decided(AcquireResult::Refused(refusal)));
    // A corrupt counter matters only once it is needed.
    let counter = counter.map(Counter::read).transpose();
    if let Some(window) = request.fence_window {
        let counter = counter.as_ref().map_err(LockError::clone)?;
        let last_fence = last_fence(lock.as_ref(), counter.as_ref(), &request.key);
        if let Some(refusal) = window.refuses_counter(last_fence) {
            return refused(refusal);
        }
        if let Some(refusal) = window.refuses_time(now) {
            return refused(refusal);
        }
    }
    if let Some(held) = held {
        let contention = Contention::until(held.expires_at, now);
        let contention = contention.with_polled(!held.has_holder);
        return Ok(Look::Decided(AcquireResult::Busy(contention)));
    }
    // A document that cannot be read is not our lock.
    let other = other.and_then(|other| Record::read(other).ok());
    if other.is_some_and(|other| other.lock_id == request.lock_id && other.is_live(now)) {
        return Err(lock_id_in_use().into());
    }
    if inner.options.strict_clock {
        time.check(lock.is_some())?;
    }
    let counter = counter?;
    let last_fence = last_fence(lock.as_ref(), counter.as_ref(), &request.key);
    Ok(Look::Free(Free { lock, counter, last_fence, time }))
}

/// Writes the lock and the counter in one commit, if both are unchanged since they were read.
///
/// Both preconditions are needed. If only the lock's were stated, a lock that was taken and released since
/// the read would be as absent as before, but its fence has been used.
///
/// So the commit is void once the counter is above the one that was read; `settle` uses this.
async fn take(
    inner: &Inner,
    target: &Target<'_>,
    attempt: &Attempt,
    free: Free,
    caller: &Caller<Fence>,
) -> Result<Acquired, Fault> {
    let Target { request, names, .. } = target;
    let (key, lock_id) = (&request.key, request.lock_id);
    let fence = request.next_fence(free.last_fence)?;
    let now = free.time.latest;
    let expires_at = now.plus(request.ttl)?;
    let seen = free.counter.as_ref().map_or(Fence::ZERO, |counter| counter.last);
    let times = (now, expires_at);
    let holder = inner.client_state.holder_of(request);
    let lock = Record::document(names.lock.clone(), key, lock_id, times, fence, holder);
    let counter = Counter::document(names.fence.clone(), key, fence);
    let writes = vec![
        put(lock, free.lock.map(|lock| lock.version)),
        put(counter, free.counter.map(|counter| counter.version)),
    ];
    caller.check()?;
    caller.sends(seen, attempt.call_bound());
    let answer = inner.commit(writes, attempt).await?;
    inner.remember_written(lock_id, names.lock.clone(), answer, expires_at);
    fence.warn_near_limit("firestore", key);
    Ok(Acquired::new(lock_id, expires_at, fence))
}
