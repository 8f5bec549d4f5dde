//! Taking a lock.

use std::sync::Arc;

use syncguard_core::authoring::cancel::Caller;
use syncguard_core::authoring::{Attempt, Fault, StoreTime, lock_id_in_use};
use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired};
use syncguard_core::{Contention, Fence, LockError, LockId};

use crate::inner::{Changed, Inner};
use crate::record::{self, Held, Record};
use crate::txn::{Change, Version};
use crate::wire::KeyValue;

/// How many races an acquire may lose against rivals before it answers that the lock is busy.
const RACES: u32 = 4;

/// Sends one transaction for a key that this backend left free, else a read and a transaction.
///
/// A transaction whose conditions do not hold reads why. If a rival has the lock, that is contention. Each refused
/// transaction is a write for etcd, so a key that is not known to be free is read first.
///
/// After a transaction without an answer, the counter shows whether it was carried out. If it may have been, the outcome
/// stays unknown, and the backend cleans up. If not, the next one is sent; or if the lock is somebody else's, the first one
/// is made void before the answer.
///
/// Once the `caller` has gone, no more transactions are sent: a lock that is not taken need not be released.
pub(crate) async fn acquire(
    inner: Arc<Inner>,
    request: AcquireRequest,
    caller: Caller<Fence>,
) -> Result<AcquireResult, LockError> {
    let subject = |error: LockError| error.with_key(&request.key).with_lock_id(request.lock_id);
    let target = Target {
        request: &request,
        lock: inner.layout.lock(request.key.expose()),
        counter: inner.layout.counter(request.key.expose()),
        index: inner.layout.index(request.lock_id),
    };
    let mut attempts = inner.attempts();
    let left_free = |counter| Seen { lock: None, counter: Ok(Some(counter)), has_index: false };
    let mut seen = inner.free.take(&request.key).map(left_free);
    let mut races = 0;
    loop {
        let attempt = attempts.attempt();
        match once(&inner, &target, seen.take(), &attempt, &caller).await {
            Ok(Step::Decided(result)) => return Ok(result),
            Ok(Step::LostRace(_)) if races >= RACES && attempt.lost.is_none() => {
                return Ok(AcquireResult::Busy(Contention::unknown()));
            }
            Ok(Step::LostRace(now)) => {
                races += 1;
                seen = Some(now);
            }
            Err(fault) => attempts.again(fault).await.map_err(subject)?,
        }
    }
}

/// The request and the names of its records.
struct Target<'a> {
    request: &'a AcquireRequest,
    lock: String,
    counter: String,
    index: String,
}

/// The records of a key, as they were read or remembered.
struct Seen {
    lock: Option<Held>,
    /// A corrupt counter matters only once it is needed.
    counter: Result<Option<Fence>, LockError>,
    /// Whether the lock id has an index entry; not known before a transaction was refused.
    has_index: bool,
}

/// The result of an attempt.
enum Step {
    Decided(AcquireResult),
    /// Another client changed the records. These are their states now.
    LostRace(Seen),
}

impl Seen {
    fn read(
        target: &Target<'_>,
        lock: Option<KeyValue>,
        counter: Option<&KeyValue>,
        has_index: bool,
    ) -> Result<Self, LockError> {
        let key = target.request.key.expose();
        let lock = lock.map(|lock| Held::read(&target.lock, key, lock)).transpose()?;
        Ok(Self { lock, counter: record::counter(&target.counter, counter), has_index })
    }

    /// The counter, and the highest known fence of the key.
    fn last_fence(&self, target: &Target<'_>) -> Result<(Option<Fence>, Fence), LockError> {
        let counter = self.counter.clone()?;
        let carried = self.lock.as_ref().map(|lock| lock.record.fence);
        Ok((counter, Fence::last_of(counter, carried, &target.request.key)))
    }
}

async fn once(
    inner: &Arc<Inner>,
    target: &Target<'_>,
    seen: Option<Seen>,
    attempt: &Attempt,
    caller: &Caller<Fence>,
) -> Result<Step, Fault> {
    caller.check()?;
    let seen = match seen {
        Some(seen) => seen,
        None => {
            let names = [&*target.lock, &*target.counter];
            let [lock, counter] = inner.read(names, attempt).await?;
            Seen::read(target, lock, counter.as_ref(), false)?
        }
    };
    let time = inner.time().await?;
    inner.client.members.check()?;
    let earlier = Earlier::of(target.request.lock_id, &seen, attempt, caller)?;
    let decided = decide(inner, target, &seen, time)?;
    if let Some(granted) = decided.filter(AcquireResult::is_acquired) {
        return Ok(Step::Decided(granted));
    }
    match (earlier, decided) {
        (Earlier::MayHaveCome(lost), _) => Err(lost.into()),
        (Earlier::MayCome, Some(result)) => void(inner, target, &seen, attempt, result).await,
        (Earlier::Void, Some(result)) => Ok(Step::Decided(result)),
        (_, None) => take(inner, target, &seen, attempt, caller).await,
    }
}

/// The transactions of this acquire that were sent and not answered.
enum Earlier {
    /// There are none, or they were not carried out and never will be.
    Void,
    /// They were not carried out: the counter is as they state it.
    MayCome,
    /// The counter has moved, perhaps by one of them, whose lock has ended since: one lock id has one fence.
    MayHaveCome(LockError),
}

impl Earlier {
    fn of(
        lock_id: LockId,
        seen: &Seen,
        attempt: &Attempt,
        caller: &Caller<Fence>,
    ) -> Result<Self, LockError> {
        let (Some(lost), Some(stated)) = (&attempt.lost, caller.void_after()) else {
            return Ok(Self::Void);
        };
        let counter = seen.counter.clone()?;
        let now = counter.unwrap_or(Fence::ZERO);
        if now <= stated {
            return Ok(Self::MayCome);
        }
        // It has moved once, and that was the acquire of a rival, whose lock is there.
        let is_the_rivals = seen.lock.as_ref().is_some_and(|Held { record, .. }| {
            Some(record.fence) == counter && record.lock_id != lock_id
        });
        let has_moved_once = now.get() == stated.get() + 1;
        Ok(if is_the_rivals && has_moved_once {
            Self::Void
        } else {
            Self::MayHaveCome(lost.clone())
        })
    }
}

/// Makes earlier transactions void before the answer that the lock is not granted. One that arrived after the release of
/// the present lock would take the key for a caller that has been told "busy".
async fn void(
    inner: &Inner,
    target: &Target<'_>,
    seen: &Seen,
    attempt: &Attempt,
    result: AcquireResult,
) -> Result<Step, Fault> {
    let (counter, last_fence) = seen.last_fence(target)?;
    let change = Change::default()
        .count(&target.counter, counter, last_fence.next()?)
        .or_read(&[&target.lock, &target.counter]);
    match inner.change(change, attempt).await? {
        Changed::Done(_) => Ok(Step::Decided(result)),
        Changed::Refused([lock, counter]) => {
            Ok(Step::LostRace(Seen::read(target, lock, counter.as_ref(), false)?))
        }
    }
}

/// Decides without a write; `None` if the key can be taken.
fn decide(
    inner: &Inner,
    target: &Target<'_>,
    seen: &Seen,
    time: StoreTime,
) -> Result<Option<AcquireResult>, Fault> {
    let (request, now) = (target.request, time.earliest);
    let held = seen.lock.as_ref().filter(|lock| lock.record.is_live(now));
    if let Some(held) = held.filter(|held| held.record.lock_id == request.lock_id) {
        // We hold the lock already: the answer to an earlier transaction was lost.
        inner.remember(held.record.clone(), held.version.clone());
        let Record { expires_at, fence, .. } = held.record;
        let acquired = Acquired::new(request.lock_id, expires_at, fence);
        return Ok(Some(AcquireResult::Acquired(acquired)));
    }
    if let Some(window) = request.fence_window {
        let (_, last_fence) = seen.last_fence(target)?;
        if let Some(refusal) = window.refuses_counter(last_fence) {
            return Ok(Some(AcquireResult::Refused(refusal)));
        }
        if let Some(refusal) = window.refuses_time(now) {
            return Ok(Some(AcquireResult::Refused(refusal)));
        }
    }
    // Only this library writes to these keys, so no holder is a client that only polls.
    Ok(held.map(|held| AcquireResult::Busy(Contention::until(held.record.expires_at, now))))
}

/// Writes the lock, its index entry and the counter in one step, if lock and counter are unchanged since they were seen
/// and the lock id is new.
///
/// The conditions on lock and counter are both needed. If only the lock's were stated, a lock that was taken and released
/// since the read would be as absent as before, but its fence has been used.
///
/// So the transaction is void once the counter is above the one that was seen; `settle` uses this.
async fn take(
    inner: &Inner,
    target: &Target<'_>,
    seen: &Seen,
    attempt: &Attempt,
    caller: &Caller<Fence>,
) -> Result<Step, Fault> {
    let time = if inner.options.strict_clock {
        inner.probe.strict_time(seen.lock.is_some()).await?
    } else {
        inner.time().await?
    };
    let Target { request, lock: lock_name, counter: counter_name, index } = target;
    let (key, lock_id) = (&request.key, request.lock_id);
    let (counter, last_fence) = seen.last_fence(target)?;
    // The lock of the same request, which has expired, is no reason to refuse its lock id.
    let before = seen.lock.as_ref().map(|lock| lock.record.lock_id).filter(|id| *id != lock_id);
    let is_new = seen.lock.is_none() || before.is_some();
    if seen.has_index && is_new {
        return Err(lock_id_in_use().into());
    }
    let record = Record {
        key: key.clone(),
        lock_id,
        acquired_at: time.latest,
        expires_at: time.latest.plus(request.ttl)?,
        fence: request.next_fence(last_fence)?,
        holder: Some(inner.client_state.holder_of(request).clone()),
    };
    let value = record.value()?;

    let mut change = Change::default()
        .count(counter_name, counter, record.fence)
        .if_version(lock_name, seen.lock.as_ref().map(|lock| &lock.version))
        .put(lock_name, value.clone())
        .put(index, key.expose().into());
    if is_new {
        change = change.if_absent(index);
    }
    if let Some(before) = before {
        change = change.delete(&inner.layout.index(before));
    }
    let change = change.or_read(&[lock_name, counter_name, index]);

    caller.check()?;
    caller.sends(counter.unwrap_or(Fence::ZERO), attempt.call_bound());
    match inner.change(change, attempt).await? {
        Changed::Done(revision) => {
            let acquired = Acquired::new(lock_id, record.expires_at, record.fence);
            record.fence.warn_near_limit("etcd", key);
            inner.remember(record, Version { revision, value });
            Ok(Step::Decided(AcquireResult::Acquired(acquired)))
        }
        Changed::Refused([lock, counter, index]) => {
            let now = Seen::read(target, lock, counter.as_ref(), index.is_some())?;
            Ok(Step::LostRace(now))
        }
    }
}
