//! Letting a lock live longer.

use std::sync::Arc;

use syncguard_core::{ExtendRequest, ExtendResult, LockError, Timestamp};

use crate::attempts::Attempts;
use crate::document::{Version, put_expiry};
use crate::error::{Again, Fault};
use crate::held;
use crate::inner::Inner;

pub(crate) async fn extend(
    inner: Arc<Inner>,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let mut attempts = inner.attempts();
    loop {
        match once(&inner, &request, &attempts).await {
            Ok(result) => return Ok(result),
            Err(fault) => {
                let lock_id = request.lock_id;
                attempts.again(fault).await.map_err(|error| error.with_lock_id(lock_id))?;
            }
        }
    }
}

async fn once(
    inner: &Arc<Inner>,
    request: &ExtendRequest,
    attempts: &Attempts,
) -> Result<ExtendResult, Fault> {
    if let Some(known) = inner.known_live(request.lock_id)? {
        match prolong(inner, request, known.version, attempts).await {
            Ok(expires_at) => return Ok(ExtendResult::Extended { expires_at }),
            // Somebody else has extended or ended it. The store knows.
            Err(Fault { again: Again::Conflict, .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    let mut held = held::find(inner, request.lock_id, attempts).await?;
    held.tidy(inner);
    match held.lock {
        Ok(lock) => {
            let expires_at = prolong(inner, request, lock.version, attempts).await?;
            Ok(ExtendResult::Extended { expires_at })
        }
        Err(reason) => Ok(ExtendResult::NotHeld(reason)),
    }
}

async fn prolong(
    inner: &Inner,
    request: &ExtendRequest,
    seen: Version,
    attempts: &Attempts,
) -> Result<Timestamp, Fault> {
    let expires_at = inner.now()?.plus(request.ttl)?;
    let name = seen.name.clone();
    let answer = inner.commit(vec![put_expiry(seen, expires_at)], attempts).await?;
    inner.remember(request.lock_id, name, answer, expires_at);
    Ok(expires_at)
}
