//! Taking a lock.

use super::records::{Change, Counter, LockChange, Parts, Record, Seen, StoredLock, Written};
use super::{Conditional, ConditionalStore};
use crate::authoring::attempts::Attempt;
use crate::authoring::errors::LOCK_ID_IN_USE;
use crate::authoring::failure::Fault;
use crate::cancel::Caller;
use crate::contract::request::AcquireRequest;
use crate::contract::response::{AcquireResult, Acquired, Contention};
use crate::value::{Fence, LockError, LockId};

/// Sends one change for a key that this backend left free, else a read and a change.
///
/// After a change that was refused, or a failed one, the present state shows why. If a rival got the lock meanwhile, that is
/// contention, even if the key is free again. A key that is free again is tried a few more times. The caller decides whether to
/// wait longer, and never gets an error because rivals were faster.
///
/// After a change without an answer, the counter shows whether it was carried out. If it may have been, the outcome stays
/// unknown, and the backend cleans up. If not, the next one is sent; or if the lock is somebody else's, the first one is made
/// void before the answer.
///
/// Once the `caller` has gone, no more changes are sent: a lock that is not taken need not be released.
pub(super) async fn acquire<S: ConditionalStore>(
    backend: Conditional<S>,
    request: AcquireRequest,
    caller: Caller<Fence>,
) -> Result<AcquireResult, LockError> {
    let subject = |error: LockError| error.with_key(&request.key).with_lock_id(request.lock_id);
    let mut attempts = backend.attempts();
    let left_free =
        |counter| Seen { lock: Ok(None), counter: Ok(Some(counter)), is_id_in_use: false };
    let mut seen = backend.0.free.take(&request.key).map(left_free);
    let mut races = Races::default();
    // Set once the retries are used up: the error if the last read shows no rival.
    let mut last_error = None;
    loop {
        let attempt = attempts.attempt();
        races.is_last = last_error.is_some();
        let fault = match once(&backend, &request, &caller, &attempt, seen.take(), &mut races).await
        {
            Ok(Step::Decided(result)) => return Ok(result),
            Ok(Step::Refused(now)) => {
                races.lost += 1;
                races.last_fence = None;
                seen = Some(now);
                continue;
            }
            Err(fault) => fault,
        };
        if let Some(error) = last_error {
            return Err(error);
        }
        let is_conflict = fault.is_conflict();
        match attempts.again(fault).await.map_err(subject) {
            Err(error) if is_conflict => last_error = Some(error),
            waited => waited?,
        }
    }
}

/// Counts how often a rival got the lock.
#[derive(Default)]
struct Races {
    lost: u32,
    /// By the last look; `None` if what has changed since is counted already.
    last_fence: Option<Fence>,
    is_last: bool,
}

impl Races {
    /// After this many lost races the acquire answers that the lock is busy.
    const BOUND: u32 = 4;

    /// Returns whether there were enough.
    fn observe(&mut self, last_fence: Fence) -> bool {
        if self.last_fence.replace(last_fence).is_some_and(|before| before < last_fence) {
            self.lost += 1;
        }
        self.lost >= if self.is_last { 1 } else { Self::BOUND }
    }
}

/// The result of an attempt.
enum Step<V> {
    Decided(AcquireResult),
    /// Another client changed the parts. These are their states now.
    Refused(Seen<V>),
}

async fn once<S: ConditionalStore>(
    backend: &Conditional<S>,
    request: &AcquireRequest,
    caller: &Caller<Fence>,
    attempt: &Attempt,
    seen: Option<Seen<S::Version>>,
    races: &mut Races,
) -> Result<Step<S::Version>, Fault> {
    caller.check()?;
    let (store, key, lock_id) = (backend.store(), &request.key, request.lock_id);
    let seen = match seen {
        Some(seen) => seen,
        None => {
            let known = backend.0.locks.look(&lock_id, |held| held.record.key.clone());
            let other = known.as_ref().filter(|other| *other != key);
            store.read(key, Parts::Acquire { lock_id, other }, attempt).await?
        }
    };
    let Seen { lock, counter, is_id_in_use } = seen;
    let lock = lock?;
    let time = store.time().await?;
    store.may_acquire()?;
    let held = lock.as_ref().filter(|lock| lock.record.is_live(time.earliest));
    if let Some(ours) = held.filter(|held| held.record.lock_id == lock_id) {
        // We hold the lock already: the answer to an earlier change was lost.
        backend.remember(ours.record.clone(), Some(ours.version.clone()));
        let acquired = Acquired::new(lock_id, ours.record.expires_at, ours.record.fence);
        return Ok(Step::Decided(AcquireResult::Acquired(acquired)));
    }
    // A corrupt counter matters only once it is needed.
    let counter = || counter.as_ref().map(Option::as_ref).map_err(LockError::clone);
    let last_fence = |counter: Option<&Counter<_>>| {
        let carried = lock.as_ref().map(|lock| lock.record.fence);
        Fence::last_of(counter.map(|counter| counter.last), carried, key)
    };
    let refusal = match request.fence_window {
        Some(window) => {
            let refusal = window.refuses_counter(last_fence(counter()?));
            refusal.or_else(|| window.refuses_time(time.earliest))
        }
        None => None,
    };
    let contention = |held: &StoredLock<_>| {
        let contention = Contention::until(held.record.expires_at, time.earliest);
        AcquireResult::Busy(contention.with_polled(held.record.is_polled))
    };
    let not_granted = refusal.map(AcquireResult::Refused).or_else(|| held.map(contention));
    let earlier = match (&attempt.lost, caller.void_after()) {
        (Some(lost), Some(stated)) => Earlier::of(lock_id, stated, lock.as_ref(), counter()?, lost),
        _ => Earlier::Void,
    };
    match (earlier, not_granted) {
        (Earlier::MayHaveCome(lost), _) => return Err(lost.into()),
        (Earlier::MayCome, Some(result)) => {
            // One that arrived after the release of the present lock would take the key for a caller that has been told
            // "busy".
            let counter = counter()?;
            let next = last_fence(counter).next()?;
            backend.carry_out(Change::count(key, counter, next), attempt).await?;
            return Ok(Step::Decided(result));
        }
        (Earlier::Void, Some(result)) => return Ok(Step::Decided(result)),
        (_, None) => {}
    }
    if is_id_in_use {
        return Err(LockError::invalid_argument(LOCK_ID_IN_USE).into());
    }
    let counter = counter()?;
    let last_fence = last_fence(counter);
    // If one of our changes may have been carried out, the new fences may be our own.
    if races.observe(last_fence) && attempt.lost.is_none() {
        return Ok(Step::Decided(AcquireResult::Busy(Contention::default())));
    }
    if races.is_last {
        return Err(Fault::conflict());
    }
    let is_strict = backend.0.options.strict_clock;
    let time = if is_strict { store.strict_time(lock.is_some()).await? } else { time };
    let record = Record {
        key: key.clone(),
        lock_id,
        acquired_at: time.latest,
        expires_at: time.latest.plus(request.ttl)?,
        fence: request.next_fence(last_fence)?,
        holder: Some(backend.0.client_state.holder_of(request).clone()),
        is_polled: false,
    };
    let taken = LockChange::Take { seen: lock.as_ref(), record: &record };
    let change = Change { key, lock: Some(taken), counter: Some((counter, record.fence)) };
    caller.check()?;
    caller.sends(counter.map_or(Fence::ZERO, |counter| counter.last), attempt.call_bound());
    let version = match store.write(&change, attempt).await? {
        Written::Done(version) => version,
        Written::Refused(now) => return Ok(Step::Refused(now)),
    };
    let acquired = Acquired::new(lock_id, record.expires_at, record.fence);
    record.fence.warn_near_limit(S::NAME, key);
    backend.remember(record, version);
    Ok(Step::Decided(AcquireResult::Acquired(acquired)))
}

/// The changes of this acquire that were sent and not answered.
enum Earlier {
    /// There are none, or they were not carried out and never will be.
    Void,
    /// They were not carried out: the counter is as they state it.
    MayCome,
    /// The counter has moved, perhaps by one of them, whose lock has ended since: one lock id has one fence.
    MayHaveCome(LockError),
}

impl Earlier {
    /// `stated` is the counter that the last of them has stated.
    fn of<V>(
        lock_id: LockId,
        stated: Fence,
        lock: Option<&StoredLock<V>>,
        counter: Option<&Counter<V>>,
        lost: &LockError,
    ) -> Self {
        let now = counter.map_or(Fence::ZERO, |counter| counter.last);
        if now <= stated {
            return Self::MayCome;
        }
        // It has moved once, and that was the acquire of a rival, whose lock is there.
        let is_the_rivals =
            lock.is_some_and(|it| it.record.fence == now && it.record.lock_id != lock_id);
        let has_moved_once = now.get() == stated.get() + 1;
        if is_the_rivals && has_moved_once { Self::Void } else { Self::MayHaveCome(lost.clone()) }
    }
}
