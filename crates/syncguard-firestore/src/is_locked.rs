//! Asking whether a key is locked.

use std::sync::Arc;

use syncguard_core::LockError;
use syncguard_core::authoring::is_clearable;
use syncguard_core::contract::IsLockedRequest;

use crate::document::{Record, delete};
use crate::error::Fault;
use crate::inner::Inner;
use crate::retry::Attempt;

pub(crate) async fn is_locked(
    inner: Arc<Inner>,
    request: IsLockedRequest,
) -> Result<bool, LockError> {
    let subject = |error: LockError| error.with_key(&request.key);
    let name = inner.layout.lock_name(&request.key).map_err(subject)?;
    let result = inner.attempts().run(|attempt| once(&inner, &name, attempt)).await;
    result.map_err(subject)
}

async fn once(inner: &Arc<Inner>, name: &str, attempt: Attempt) -> Result<bool, Fault> {
    let [lock] = inner.client.read(&inner.layout, [name], attempt.call_deadline()).await?;
    let Some(lock) = lock.map(Record::read).transpose()? else { return Ok(false) };
    let now = inner.now()?;
    if inner.cleans_up && is_clearable(lock.expires_at, now) {
        // Deletes only this version, so a lock of a later holder stays.
        inner.in_background(vec![delete(lock.version)]);
        return Ok(false);
    }
    Ok(lock.is_live(now))
}
