//! Asking whether a key is locked.

use std::sync::Arc;

use syncguard_core::LockError;
use syncguard_core::authoring::{Attempt, is_clearable};
use syncguard_core::contract::IsLockedRequest;

use crate::document::delete;
use crate::inner::Inner;

pub(crate) async fn is_locked(
    inner: &Arc<Inner>,
    request: &IsLockedRequest,
) -> Result<bool, LockError> {
    let once = async |attempt: Attempt| {
        let Some(lock) = inner.lock(&request.key, &attempt).await? else { return Ok(false) };
        let now = inner.time()?.earliest;
        if inner.options.cleanup_in_is_locked && is_clearable(lock.expires_at, now) {
            // Deletes only this version, so a lock of a later holder stays.
            inner.in_background(vec![delete(lock.version)]);
            return Ok(false);
        }
        Ok(lock.is_live(now))
    };
    inner.attempts().run(once).await.map_err(|error| error.with_key(&request.key))
}
