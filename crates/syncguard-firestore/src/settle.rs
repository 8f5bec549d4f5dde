//! Ending an acquire whose caller has gone and whose outcome is unknown.
//!
//! Commits of this acquire may still arrive, but no new ones are sent. Each of them states the versions of
//! lock and counter that the acquire had read. So there are two cases, and neither needs a deadline:
//!
//! - A commit was carried out: the lock is there under our id, and the counter has moved. The lock is
//!   deleted. A commit that had read this lock as expired, and would take it again, states its version, so
//!   the deletion makes this commit void.
//! - No commit was carried out: the counter is raised by one, unless it has moved since the acquire read
//!   it. The commits are then void. This skips a fence, which is allowed: fences only have to grow. A tick
//!   loses an attempt by it at most. The fence has to change, because Firestore keeps the update time of a
//!   document that a write leaves as it was, and the commits would stay valid.

use syncguard_core::authoring::cancel::{Settled, Unsettled};
use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::{Fence, LockError};

use crate::document::{Counter, Record, delete, last_fence, put};
use crate::inner::Inner;
use crate::names::Names;

/// Sends one commit for a remembered lock; otherwise a read, and a commit if something is to change.
///
/// Fails with `Internal`, before anything is written, if the fences of the key are used up.
pub(crate) async fn settle(
    inner: &Inner,
    acquire: &Unsettled<Fence>,
) -> Result<Settled, LockError> {
    let subject = |error: LockError| error.with_key(&acquire.key).with_lock_id(acquire.lock_id);
    let names = inner.layout.names(&acquire.key).map_err(subject)?;
    // After a conflict, read again: the change may already be the one that was wanted.
    let once = |attempt| once(inner, acquire, &names, attempt);
    inner.attempts().run(once).await.map_err(subject)?;
    Ok(Settled::Done)
}

async fn once(
    inner: &Inner,
    acquire: &Unsettled<Fence>,
    names: &Names,
    attempt: Attempt,
) -> Result<(), Fault> {
    let known = inner.known.take(&acquire.lock_id).map(|known| known.version);
    if let Some(version) = known.filter(|version| version.name == names.lock) {
        match inner.commit(vec![delete(version)], &attempt).await {
            Ok(_) => return Ok(()),
            Err(fault) if fault.is_conflict() => {}
            Err(fault) => return Err(fault),
        }
    }
    let [lock, counter] = inner.read([&*names.lock, &*names.fence], &attempt).await?;
    // A document that cannot be read is not our lock.
    let lock = lock.and_then(|lock| Record::read(lock).ok());
    if let Some(ours) = lock.as_ref().filter(|lock| lock.lock_id == acquire.lock_id) {
        inner.commit(vec![delete(ours.version.clone())], &attempt).await?;
        return Ok(());
    }
    // Without it no commit was sent.
    let Some(seen) = acquire.void_after else { return Ok(()) };
    let counter = counter.map(Counter::read).transpose()?;
    if counter.as_ref().is_some_and(|counter| counter.last > seen) {
        return Ok(());
    }
    let skipped = last_fence(lock.as_ref(), counter.as_ref(), &acquire.key).next()?;
    let moved = Counter::document(names.fence.clone(), &acquire.key, skipped);
    inner.commit(vec![put(moved, counter.map(|counter| counter.version))], &attempt).await?;
    Ok(())
}
