//! Releasing a lock.

use std::sync::Arc;

use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{Fence, LockError, ReleaseResult};

use crate::find::{find, judge};
use crate::inner::{Changed, Inner};
use crate::record::Held;
use crate::txn::Change;

pub(crate) async fn release(
    inner: Arc<Inner>,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let result = inner.attempts().run(|attempt| once(&inner, &request, attempt)).await;
    result.map_err(|error| error.with_lock_id(request.lock_id))
}

async fn once(
    inner: &Inner,
    request: &ReleaseRequest,
    attempt: Attempt,
) -> Result<ReleaseResult, Fault> {
    let lock_id = request.lock_id;
    // The lock may have been deleted by our own transaction, whose answer was lost, or by another client.
    let not_held = |reason| match &attempt.lost {
        Some(lost) => Err(Fault::from(lost.clone())),
        None => Ok(ReleaseResult::NotHeld(reason)),
    };
    let held = match inner.known_live(lock_id).await? {
        Some(known) => known,
        None => match find(inner, lock_id, request.key_hint.as_ref(), &attempt).await? {
            Ok(found) => found,
            Err(reason) => return not_held(reason),
        },
    };
    let name = inner.layout.lock(held.record.key.expose());
    let change = delete(inner, &held);
    let (change, counter) = raise(inner, request, &held, change, &attempt).await?;
    match inner.change(change.or_read(&[&name]), &attempt).await? {
        Changed::Done(_) => {
            inner.free.put(held.record.key, counter);
            Ok(ReleaseResult::Released)
        }
        Changed::Refused([lock]) => match judge(inner, &held.record.key, lock_id, lock).await? {
            // Another client has extended the lock meanwhile.
            Ok(_) => Err(Fault::conflict()),
            Err(reason) => not_held(reason),
        },
    }
}

/// Adds the counter to the change if the release raises it. Also returns the counter after the change: while the lock is
/// held, that is its fence, or more if somebody has raised it.
async fn raise(
    inner: &Inner,
    request: &ReleaseRequest,
    held: &Held,
    change: Change,
    attempt: &Attempt,
) -> Result<(Change, Fence), Fault> {
    let fence = held.record.fence;
    let raised = request.raised().filter(|(key, _)| **key == held.record.key);
    let Some((key, at_least)) = raised else { return Ok((change, fence)) };
    let name = inner.layout.counter(key.expose());
    let seen = inner.counter(&name, attempt).await?;
    if let Some(enough) = seen.filter(|seen| *seen >= at_least) {
        return Ok((change, enough));
    }
    Ok((change.count(&name, seen, at_least), at_least))
}

/// Deletes a lock and its index entry, if the lock still has this version.
pub(crate) fn delete(inner: &Inner, held: &Held) -> Change {
    let name = inner.layout.lock(held.record.key.expose());
    Change::default()
        .if_version(&name, Some(&held.version))
        .delete(&name)
        .delete(&inner.layout.index(held.record.lock_id))
}
