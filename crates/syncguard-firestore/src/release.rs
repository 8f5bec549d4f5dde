//! Giving a lock back.

use std::sync::Arc;

use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{LockError, ReleaseResult};

use crate::by_lock_id;
use crate::document::delete;
use crate::error::{Again, Fault};
use crate::inner::Inner;
use crate::retry::Attempt;

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
    let lock_id = request.lock_id;
    let known = inner.known_live(lock_id)?;
    // Where it was is known already, and it has changed.
    let hint = request.key_hint.as_ref().filter(|_| known.is_none());
    if let Some(known) = known {
        match inner.commit(vec![delete(known.version)], &attempt).await {
            Ok(_) => return Ok(ReleaseResult::Released),
            // Somebody else has extended or ended it. The store knows.
            Err(Fault { again: Again::Conflict, .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    let mut held = by_lock_id::find(inner, lock_id, hint, &attempt).await?;
    held.tidy(inner);
    match held.lock {
        Ok(lock) => {
            inner.commit(vec![delete(lock.version)], &attempt).await?;
            Ok(ReleaseResult::Released)
        }
        // Was it our own commit, whose answer was lost, or somebody else's? Nobody can tell.
        Err(reason) => match &attempt.lost {
            Some(lost) => Err(lost.clone().into()),
            None => Ok(ReleaseResult::NotHeld(reason)),
        },
    }
}
