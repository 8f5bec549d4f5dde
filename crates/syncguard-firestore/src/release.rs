//! Releasing a lock.

use std::sync::Arc;

use gcloud_sdk::google::firestore::v1::Write;
use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockError, ReleaseResult};

use crate::by_lock_id;
use crate::document::{Counter, Version, delete, put};
use crate::inner::Inner;

pub(crate) async fn release(
    inner: Arc<Inner>,
    request: ReleaseRequest,
) -> Result<ReleaseResult, LockError> {
    let result = inner.attempts().run(|attempt| once(&inner, &request, attempt)).await;
    result.map_err(|error| error.with_lock_id(request.lock_id))
}

async fn once(
    inner: &Arc<Inner>,
    request: &ReleaseRequest,
    attempt: Attempt,
) -> Result<ReleaseResult, Fault> {
    let raise = raise(inner, request, &attempt).await?;
    let writes = |version: Version| {
        let raise = raise.iter().filter(|(lock, _)| *lock == version.name).map(|(_, raise)| raise);
        let raise: Vec<_> = raise.cloned().collect();
        [vec![delete(version)], raise].concat()
    };
    let lock_id = request.lock_id;
    let known = inner.known_live(lock_id)?;
    // If the document is remembered and has changed, the hint would lead to the same document.
    let hint = request.key_hint.as_ref().filter(|_| known.is_none());
    if let Some(known) = known {
        match inner.commit(writes(known.version), &attempt).await {
            Ok(_) => return Ok(ReleaseResult::Released),
            // Another client has extended or released the lock. A query decides.
            Err(fault) if fault.is_conflict() => {}
            Err(fault) => return Err(fault),
        }
    }
    let mut held = by_lock_id::find(inner, lock_id, hint, &attempt).await?;
    held.delete_duplicates(inner);
    match held.lock {
        Ok(lock) => {
            inner.commit(writes(lock.version), &attempt).await?;
            Ok(ReleaseResult::Released)
        }
        // The lock may have been deleted by our own commit, whose answer was lost, or by another client.
        Err(reason) => match &attempt.lost {
            Some(lost) => Err(lost.clone().into()),
            None => Ok(ReleaseResult::NotHeld(reason)),
        },
    }
}

/// The write that raises the counter which the request names, and the name of its lock's document. The write states the
/// version that was read, as [`put`] does.
async fn raise(
    inner: &Inner,
    request: &ReleaseRequest,
    attempt: &Attempt,
) -> Result<Option<(String, Write)>, Fault> {
    let Some((key, at_least)) = request.raised() else { return Ok(None) };
    let names = inner.layout.names(key)?;
    let seen = inner.counter(&names.fence, attempt).await?;
    if seen.as_ref().is_some_and(|counter| counter.last >= at_least) {
        return Ok(None);
    }
    let raised = Counter::document(names.fence, key, at_least);
    Ok(Some((names.lock, put(raised, seen.map(|counter| counter.version)))))
}
