//! Letting a lock live longer.

use std::sync::Arc;

use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, Timestamp, Ttl};

use crate::by_lock_id;
use crate::cache::Known;
use crate::document::put_expiry;
use crate::error::{Again, Fault};
use crate::inner::Inner;
use crate::retry::Attempt;

/// A first commit of ours whose answer was lost may be what a second try finds: to a caller who
/// expects an expiry that is a mismatch like any other, with the expiry that the lock has now.
pub(crate) async fn extend(
    inner: Arc<Inner>,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let result = inner.attempts().run(|attempt| once(&inner, &request, attempt)).await;
    result.map_err(|error| error.with_lock_id(request.lock_id))
}

async fn once(
    inner: &Arc<Inner>,
    request: &ExtendRequest,
    attempt: Attempt,
) -> Result<ExtendResult, Fault> {
    let known = inner.known_live(request.lock_id)?;
    // Where it was is known already, and it has changed.
    let hint = request.key_hint.as_ref().filter(|_| known.is_none());
    if let Some(known) = known.filter(|known| is_expected(request, known)) {
        match prolong(inner, request, known, &attempt).await {
            Ok(expires_at) => return Ok(ExtendResult::Extended { expires_at }),
            // Somebody else has extended or ended it. The store knows.
            Err(Fault { again: Again::Conflict, .. }) => {}
            Err(fault) => return Err(fault),
        }
    }
    let mut held = by_lock_id::find(inner, request.lock_id, hint, &attempt).await?;
    held.tidy(inner);
    let found = match held.lock {
        Ok(lock) => Known { version: lock.version, expires_at: lock.expires_at },
        Err(reason) => return Ok(ExtendResult::NotHeld(reason)),
    };
    if !is_expected(request, &found) {
        let expires_at = found.expires_at;
        // The caller hears the expiry, and probably extends again.
        inner.cache.remember(request.lock_id, found);
        return Ok(ExtendResult::Mismatch { expires_at });
    }
    let expires_at = prolong(inner, request, found, &attempt).await?;
    Ok(ExtendResult::Extended { expires_at })
}

/// Whether it is the expiry that the caller knows, if he knows one.
fn is_expected(request: &ExtendRequest, known: &Known) -> bool {
    request.expected_expiry.is_none_or(|expected| expected == known.expires_at)
}

/// Moves the expiry if the lock is still as it is known: compare and set.
///
/// A commit that was given up before states a version that this one replaces, so it is void if it
/// arrives later. A write that changes nothing would leave the version as it is, and such a commit
/// good: so the expiry really moves, by a millisecond more than was asked for if need be.
async fn prolong(
    inner: &Inner,
    request: &ExtendRequest,
    seen: Known,
    attempt: &Attempt,
) -> Result<Timestamp, Fault> {
    let mut expires_at = inner.now()?.plus(request.ttl)?;
    if expires_at == seen.expires_at {
        expires_at = expires_at.plus(Ttl::MIN)?;
    }
    let name = seen.version.name.clone();
    let answer = inner.commit(vec![put_expiry(seen.version, expires_at)], attempt).await?;
    inner.remember(request.lock_id, name, answer, expires_at);
    Ok(expires_at)
}
