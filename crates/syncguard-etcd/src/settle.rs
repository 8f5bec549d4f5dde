//! Ending an acquire whose outcome is unknown and whose lock is not wanted.
//!
//! Transactions of this acquire may still arrive, but no new ones are sent. Each of them states the lock and the counter
//! that the acquire had seen. So there are two cases, and neither needs a deadline:
//!
//! - A transaction was carried out: the lock is there under our id, and the counter has moved. The lock is deleted. A
//!   transaction that had read this lock as expired, and would take it again, states its version, so the deletion makes
//!   this transaction void.
//! - No transaction was carried out: the counter is raised by one, unless it has moved since the acquire saw it. The
//!   transactions are then void. This skips a fence, which is allowed: fences only have to grow. A tick loses an attempt
//!   by it at most.

use syncguard_core::authoring::cancel::{Settled, Unsettled};
use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::{Fence, LockError};

use crate::inner::{Changed, Inner};
use crate::record::{self, Held};
use crate::release::delete;

/// Sends one transaction for a remembered lock; otherwise a read, and a transaction if something is to change.
///
/// Fails with `Internal`, before anything is written, if the fences of the key are used up.
pub(crate) async fn settle(
    inner: &Inner,
    acquire: &Unsettled<Fence>,
) -> Result<Settled, LockError> {
    let subject = |error: LockError| error.with_key(&acquire.key).with_lock_id(acquire.lock_id);
    // After a conflict, read again: the change may already be the one that was wanted.
    let once = |attempt| once(inner, acquire, attempt);
    inner.attempts().run(once).await.map_err(subject)?;
    Ok(Settled::Done)
}

async fn once(inner: &Inner, acquire: &Unsettled<Fence>, attempt: Attempt) -> Result<(), Fault> {
    let known = inner.locks.take(&acquire.lock_id);
    if let Some(known) = known.filter(|known| known.record.key == acquire.key)
        && remove(inner, &known, &attempt).await?
    {
        return Ok(());
    }
    let key = acquire.key.expose();
    let (lock_name, counter_name) = (inner.layout.lock(key), inner.layout.counter(key));
    let [lock, counter] = inner.read([&lock_name, &counter_name], &attempt).await?;
    // A record that cannot be read is not our lock.
    let lock = lock.and_then(|lock| Held::read(&lock_name, key, lock).ok());
    if let Some(ours) = lock.as_ref().filter(|lock| lock.record.lock_id == acquire.lock_id) {
        return if remove(inner, ours, &attempt).await? { Ok(()) } else { Err(Fault::conflict()) };
    }
    // Without it no transaction was sent.
    let Some(seen) = acquire.void_after else { return Ok(()) };
    let counter = record::counter(&counter_name, counter.as_ref())?;
    if counter > Some(seen) {
        return Ok(());
    }
    let carried = lock.map(|lock| lock.record.fence);
    let skipped = Fence::last_of(counter, carried, &acquire.key).next()?;
    inner.count(&counter_name, counter, skipped, &attempt).await
}

/// Deletes the lock if it is unchanged; returns whether it was.
async fn remove(inner: &Inner, held: &Held, attempt: &Attempt) -> Result<bool, Fault> {
    let change = delete(inner, held);
    Ok(matches!(inner.change::<0>(change.or_read(&[]), attempt).await?, Changed::Done(_)))
}
