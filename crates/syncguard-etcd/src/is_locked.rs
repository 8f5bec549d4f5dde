//! Asking whether a key is locked.

use std::sync::Arc;

use syncguard_core::LockError;
use syncguard_core::authoring::is_clearable;
use syncguard_core::contract::IsLockedRequest;

use crate::error::Fault;
use crate::inner::Inner;
use crate::record::Held;
use crate::release::delete;
use crate::retry::Attempt;

pub(crate) async fn is_locked(
    inner: Arc<Inner>,
    request: IsLockedRequest,
) -> Result<bool, LockError> {
    let result = inner.attempts().run(|attempt| once(&inner, &request, attempt)).await;
    result.map_err(|error| error.with_key(&request.key))
}

async fn once(
    inner: &Arc<Inner>,
    request: &IsLockedRequest,
    attempt: Attempt,
) -> Result<bool, Fault> {
    let name = inner.layout.lock(&request.key);
    let [lock] = inner.read([&name], &attempt).await?;
    let Some(lock) = lock else { return Ok(false) };
    let held = Held::read(&name, request.key.expose(), lock)?;
    let now = inner.now()?;
    if inner.cleans_up && is_clearable(held.record.expires_at, now) {
        // Deletes only this version, so a lock of a later holder stays.
        inner.in_background(delete(inner, &held, false).or_read(&[]));
        return Ok(false);
    }
    Ok(held.is_live(now))
}
