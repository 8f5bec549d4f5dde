//! Taking a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::authoring::lock_id_in_use;
use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired};
use syncguard_core::{Contention, Fence, LockError, Timestamp};

use crate::cache::Known;
use crate::document::{Counter, Record, last_fence, put};
use crate::error::{Again, Fault};
use crate::inner::Inner;
use crate::names::Names;
use crate::retry::Attempt;

/// One read and one commit; the commit's preconditions cover everything the decision was based on.
///
/// After a commit that lost against another writer, the next read tells why. If somebody else got the
/// lock meanwhile, that is contention, also if it is free again. That read is paid for, so a key that
/// is free again is tried a few times more. Longer waiting is up to the caller, who never gets an error
/// because others were faster.
///
/// Once the `caller` has gone, no commit is sent any more: what is not taken need not be given back.
pub(crate) async fn acquire(
    inner: Arc<Inner>,
    request: AcquireRequest,
    caller: Caller,
) -> Result<AcquireResult, LockError> {
    let subject = |error: LockError| error.with_key(&request.key).with_lock_id(request.lock_id);
    let names = inner.layout.names(&request.key).map_err(subject)?;
    let other_lock = inner.cache.name_of(request.lock_id).filter(|name| *name != names.lock);
    let sought = Sought { request: &request, names: &names, other_lock: other_lock.as_deref() };
    let mut attempts = inner.attempts();
    let mut races = Races::default();
    // Once the retries are used up: what is said if the last read explains nothing.
    let mut last_word = None;
    loop {
        let free = match look(&inner, &sought, &attempts.attempt(), &caller).await {
            Ok(Look::Decided(result)) => return Ok(result),
            Ok(Look::Free(free)) => free,
            Err(fault) => match last_word {
                Some(error) => return Err(error),
                None => {
                    attempts.again(fault).await.map_err(subject)?;
                    continue;
                }
            },
        };
        races.look(free.last_fence);
        // If a commit of ours may have been carried out, nobody knows whose fences these are.
        let bound = if last_word.is_some() { 1 } else { Races::BOUND };
        if races.lost >= bound && attempts.attempt().lost.is_none() {
            return Ok(AcquireResult::Locked(Contention::unknown()));
        }
        if let Some(error) = last_word {
            return Err(error);
        }
        let fault = match take(&inner, &sought, &attempts.attempt(), free, &caller).await {
            Ok(acquired) => return Ok(AcquireResult::Acquired(acquired)),
            Err(fault) => fault,
        };
        let beaten = fault.again == Again::Conflict;
        match attempts.again(fault).await.map_err(subject) {
            Ok(()) => {}
            Err(error) if beaten => last_word = Some(error),
            Err(error) => return Err(error),
        }
    }
}

/// How often somebody else got the lock between two looks at it.
#[derive(Default)]
struct Races {
    lost: u32,
    last_fence: Option<Fence>,
}

impl Races {
    /// So many are contention.
    const BOUND: u32 = 4;

    fn look(&mut self, last_fence: Fence) {
        if self.last_fence.replace(last_fence).is_some_and(|before| before < last_fence) {
            self.lost += 1;
        }
    }
}

/// What is asked for, and where that is.
struct Sought<'a> {
    request: &'a AcquireRequest,
    names: &'a Names,
    /// The document of another key that has had this lock id.
    other_lock: Option<&'a str>,
}

/// What a read says.
enum Look {
    Decided(AcquireResult),
    Free(Free),
}

/// A key that can be taken.
struct Free {
    lock: Option<Record>,
    counter: Option<Counter>,
    /// The highest fence that is known of the key.
    last_fence: Fence,
    now: Timestamp,
}

async fn look(
    inner: &Inner,
    sought: &Sought<'_>,
    attempt: &Attempt,
    caller: &Caller,
) -> Result<Look, Fault> {
    caller.check()?;
    let (names, request) = (sought.names, sought.request);
    let (lock, fence) = (names.lock.as_str(), names.fence.as_str());
    let deadline = attempt.call_deadline();
    let (lock, counter, other) = match sought.other_lock {
        None => {
            let [lock, counter] = inner.client.read(&inner.layout, [lock, fence], deadline).await?;
            (lock, counter, None)
        }
        Some(other) => {
            let all = [lock, fence, other];
            let [lock, counter, other] = inner.client.read(&inner.layout, all, deadline).await?;
            (lock, counter, other)
        }
    };
    let lock = lock.map(Record::read).transpose()?;
    let now = inner.now()?;
    if let Some(held) = lock.as_ref().filter(|lock| lock.is_live(now)) {
        if held.lock_id == request.lock_id {
            // Ours already: the answer to an earlier commit was lost.
            return Ok(Look::Decided(granted(inner, request, held)));
        }
        inner.check_clock()?;
        let contention = Contention::until(held.expires_at, now);
        let contention = contention.with_holder_polls(!held.has_holder);
        return Ok(Look::Decided(AcquireResult::Locked(contention)));
    }
    // What cannot be read is no lock of ours.
    let other = other.and_then(|other| Record::read(other).ok());
    if other.is_some_and(|other| other.lock_id == request.lock_id && other.is_live(now)) {
        return Err(lock_id_in_use().into());
    }
    inner.check_clock()?;
    let counter = counter.map(Counter::read).transpose()?;
    let last_fence = last_fence(lock.as_ref(), counter.as_ref(), &request.key);
    Ok(Look::Free(Free { lock, counter, last_fence, now }))
}

fn granted(inner: &Inner, request: &AcquireRequest, held: &Record) -> AcquireResult {
    let known = Known { version: held.version.clone(), expires_at: held.expires_at };
    inner.cache.remember(request.lock_id, known);
    AcquireResult::Acquired(Acquired::new(request.lock_id, held.expires_at, held.fence))
}

/// The lock and the counter together, or neither, if both are as they were read.
///
/// Both preconditions are needed. With the lock's alone, a lock that was taken and released since
/// the read is as absent as before, but its fence has been used.
///
/// So the commit is void as soon as the counter has moved, which is what the caller is told in the
/// place of a time until which the store takes it: `settle` goes by it.
async fn take(
    inner: &Inner,
    sought: &Sought<'_>,
    attempt: &Attempt,
    free: Free,
    caller: &Caller,
) -> Result<Acquired, Fault> {
    let Sought { request, names, .. } = sought;
    let (key, lock_id) = (&request.key, request.lock_id);
    let fence = free.last_fence.next()?;
    let expires_at = free.now.plus(request.ttl)?;
    let seen = Counter::moved_at(free.counter.as_ref())?;
    let times = (free.now, expires_at);
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
    inner.remember(lock_id, names.lock.clone(), answer, expires_at);
    fence.warn_near_limit("firestore", key);
    Ok(Acquired::new(lock_id, expires_at, fence))
}
