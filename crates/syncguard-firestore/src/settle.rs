//! Ending an acquire that nobody wants and whose outcome nobody knows.
//!
//! Its commits may still arrive. Each of them stated the versions of lock and counter that it had read,
//! and there will be no more. So there are two cases, and neither needs a deadline:
//!
//! - One of them was carried out: the lock is there under our id, and the counter has moved. It is
//!   deleted. One that had read it expired, and would take it again, stated its version.
//! - None was: the counter is moved on by one, unless it has moved since they read it. Then they are
//!   void. A fence is left out; fences only have to grow.

use syncguard_core::LockError;
use syncguard_core::authoring::cancel::{Settled, Unsettled};

use crate::document::{Counter, Record, delete, last_fence, put};
use crate::error::{Again, Fault};
use crate::inner::Inner;
use crate::names::Names;
use crate::retry::Attempt;

/// One commit for a lock that is known, else a read, and a commit if there is something to change.
///
/// A key whose fences are used up ends it with `Internal`, before anything is written.
pub(crate) async fn settle(inner: &Inner, acquire: &Unsettled) -> Result<Settled, LockError> {
    let subject = |error: LockError| error.with_key(&acquire.key).with_lock_id(acquire.lock_id);
    let names = inner.layout.names(&acquire.key).map_err(subject)?;
    // Again after a conflict: what has changed may be what was to be done.
    let once = |attempt| once(inner, acquire, &names, attempt);
    inner.attempts().run(once).await.map_err(subject)?;
    Ok(Settled::Done)
}

async fn once(
    inner: &Inner,
    acquire: &Unsettled,
    names: &Names,
    attempt: Attempt,
) -> Result<(), Fault> {
    let known = inner.cache.take(acquire.lock_id).map(|known| known.version);
    if let Some(version) = known.filter(|version| version.name == names.lock) {
        match inner.commit(vec![delete(version)], &attempt).await {
            Ok(_) => return Ok(()),
            Err(Fault { again: Again::Conflict, .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    let both = [names.lock.as_str(), names.fence.as_str()];
    let deadline = attempt.call_deadline();
    let [lock, counter] = inner.client.read(&inner.layout, both, deadline).await?;
    // What cannot be read is no lock of ours.
    let lock = lock.and_then(|lock| Record::read(lock).ok());
    if let Some(ours) = lock.as_ref().filter(|lock| lock.lock_id == acquire.lock_id) {
        inner.commit(vec![delete(ours.version.clone())], &attempt).await?;
        return Ok(());
    }
    // Without it no commit was sent.
    let Some(seen) = acquire.deadline else { return Ok(()) };
    let counter = counter.map(Counter::read).transpose()?;
    if Counter::moved_at(counter.as_ref())? > seen {
        return Ok(());
    }
    let skipped = last_fence(lock.as_ref(), counter.as_ref(), &acquire.key).next()?;
    let moved = Counter::document(names.fence.clone(), &acquire.key, skipped);
    inner.commit(vec![put(moved, counter.map(|counter| counter.version))], &attempt).await?;
    Ok(())
}
