//! Whether a key is locked.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{IsLockedRequest, LockError, TIME_TOLERANCE, is_live};

use crate::attempts::Attempts;
use crate::document::{Record, delete};
use crate::error::Fault;
use crate::inner::Inner;

/// How long after expiry and tolerance a lock is left alone, for clocks that are behind this one.
const CLEANUP_GUARD: Duration = Duration::from_secs(2);

pub(crate) async fn is_locked(
    inner: Arc<Inner>,
    request: IsLockedRequest,
) -> Result<bool, LockError> {
    let subject = |error: LockError| error.with_key(&request.key);
    let name = inner.layout.lock_name(&request.key).map_err(subject)?;
    let mut attempts = inner.attempts();
    loop {
        match once(&inner, &name, &attempts).await {
            Ok(locked) => return Ok(locked),
            Err(fault) => attempts.again(fault).await.map_err(subject)?,
        }
    }
}

async fn once(inner: &Arc<Inner>, name: &str, attempts: &Attempts) -> Result<bool, Fault> {
    let [lock] = inner.client.read(&inner.layout, [name], attempts.call_deadline()).await?;
    let Some(lock) = lock.map(Record::read).transpose()? else { return Ok(false) };
    let now = inner.now()?;
    if inner.cleans_up && !is_live(lock.expires_at, now, TIME_TOLERANCE + CLEANUP_GUARD) {
        // Only this version of it: a successor stays.
        inner.in_background(vec![delete(lock.version)]);
        return Ok(false);
    }
    Ok(lock.is_live(now))
}
