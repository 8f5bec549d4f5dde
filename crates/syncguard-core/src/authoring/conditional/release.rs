//! Releasing a lock, and ending an acquire whose outcome is unknown and whose lock is not wanted.

use super::records::{Change, Counter, Parts, StoredLock, Written};
use super::{Conditional, ConditionalStore};
use crate::authoring::attempts::Attempt;
use crate::authoring::failure::Fault;
use crate::cancel::{Settled, Unsettled};
use crate::contract::request::ReleaseRequest;
use crate::contract::response::{NotHeld, ReleaseResult};
use crate::value::{Fence, LockError};

pub(super) async fn release<S: ConditionalStore>(
    backend: Conditional<S>,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let result = backend.attempts().run(|attempt| once(&backend, &request, attempt)).await;
    result.map_err(|error| error.with_lock_id(request.lock_id))
}

async fn once<S: ConditionalStore>(
    backend: &Conditional<S>,
    request: &ReleaseRequest,
    attempt: Attempt,
) -> Result<ReleaseResult, Fault> {
    let mut hint = request.key_hint.as_ref();
    if let Some(known) = backend.known_live(request.lock_id).await? {
        match delete(backend, request, known, &attempt).await {
            // Another client has extended or released the lock, and the hint would lead to the same record.
            Err(fault) if fault.is_conflict() => hint = None,
            answered => return answered,
        }
    }
    match backend.find(request.lock_id, hint, &attempt).await? {
        Ok(held) => delete(backend, request, held, &attempt).await,
        Err(reason) => not_held(&attempt, reason),
    }
}

/// The lock may have been deleted by our own change, whose answer was lost, or by another client.
fn not_held(attempt: &Attempt, reason: NotHeld) -> Result<ReleaseResult, Fault> {
    match &attempt.lost {
        Some(lost) => Err(lost.clone().into()),
        None => Ok(ReleaseResult::NotHeld(reason)),
    }
}

/// Deletes the lock, and raises the counter if the request says so.
async fn delete<S: ConditionalStore>(
    backend: &Conditional<S>,
    request: &ReleaseRequest,
    held: StoredLock<S::Version>,
    attempt: &Attempt,
) -> Result<ReleaseResult, Fault> {
    let store = backend.store();
    // While the lock is held, the counter is its fence, or more if somebody has raised it.
    let (mut seen, mut last) = (None, held.record.fence);
    let mut raised = request.raised().filter(|(key, _)| **key == held.record.key);
    if let Some((key, at_least)) = raised {
        seen = store.read(key, Parts::Counter, attempt).await?.counter?;
        last = seen.as_ref().map_or(at_least, |counter| counter.last.max(at_least));
        raised = raised.filter(|_| seen.as_ref().is_none_or(|counter| counter.last < at_least));
    }
    let counter = raised.map(|(_, at_least)| (seen.as_ref(), at_least));
    let change = Change { counter, ..Change::delete(&held) };
    match store.write(&change, attempt).await? {
        Written::Done(version) => {
            if let Some(version) = version {
                backend.0.free.put(held.record.key, Counter { last, version });
            }
            Ok(ReleaseResult::Released)
        }
        Written::Refused(now) => {
            not_held(attempt, backend.why_refused(now, request.lock_id).await?)
        }
    }
}

/// Changes of this acquire may still arrive, but no new ones are sent. Each of them states the lock and the counter that the
/// acquire had seen. So there are two cases, and neither needs a deadline:
///
/// - A change was carried out: the lock is there under our id, and the counter has moved. The lock is deleted. A change that
///   had read this lock as expired, and would take it again, states its version, so the deletion makes this change void.
/// - No change was carried out: the counter is raised by one, unless it has moved since the acquire saw it. The changes are
///   then void. This skips a fence, which is allowed: fences only have to grow. A tick loses an attempt by it at most.
///
/// Sends one change for a remembered lock; otherwise a read, and a change if something is to change.
///
/// # Errors
///
/// `Internal`, before anything is written, if the fences of the key are used up.
pub(super) async fn settle<S: ConditionalStore>(
    backend: &Conditional<S>,
    acquire: &Unsettled<Fence>,
) -> Result<Settled, LockError> {
    // After a conflict, read again: the change may already be the one that was wanted.
    let result = backend.attempts().run(|attempt| settle_once(backend, acquire, attempt)).await;
    let subject = |error: LockError| error.with_key(&acquire.key).with_lock_id(acquire.lock_id);
    result.map(|()| Settled::Done).map_err(subject)
}

async fn settle_once<S: ConditionalStore>(
    backend: &Conditional<S>,
    acquire: &Unsettled<Fence>,
    attempt: Attempt,
) -> Result<(), Fault> {
    let known = backend.0.locks.take(&acquire.lock_id);
    if let Some(known) = known.filter(|known| known.record.key == acquire.key) {
        match backend.carry_out(Change::delete(&known), &attempt).await {
            Err(fault) if fault.is_conflict() => {}
            done => return done,
        }
    }
    let seen = backend.store().read(&acquire.key, Parts::Both, &attempt).await?;
    // A record that cannot be read is not our lock.
    let lock = seen.lock.ok().flatten();
    if let Some(ours) = lock.as_ref().filter(|lock| lock.record.lock_id == acquire.lock_id) {
        return backend.carry_out(Change::delete(ours), &attempt).await;
    }
    // Without it no change was sent.
    let Some(stated) = acquire.void_after else { return Ok(()) };
    let counter = seen.counter?;
    let last = counter.as_ref().map(|counter| counter.last);
    if last > Some(stated) {
        return Ok(());
    }
    let carried = lock.map(|lock| lock.record.fence);
    let skipped = Fence::last_of(last, carried, &acquire.key).next()?;
    backend.carry_out(Change::count(&acquire.key, counter.as_ref(), skipped), &attempt).await
}
