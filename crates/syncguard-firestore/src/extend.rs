//! Extending a lock.

use std::sync::Arc;

use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, Timestamp, Ttl};

use crate::by_lock_id;
use crate::document::put_expiry;
use crate::inner::{Inner, Known};

/// A second try may find the expiry that our own first commit has set, if the answer to that commit was
/// lost. A caller that expects an expiry then gets an ordinary mismatch, with the expiry that the lock has
/// now.
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
    // If the document is remembered and has changed, the hint would lead to the same document.
    let hint = request.key_hint.as_ref().filter(|_| known.is_none());
    if let Some(known) = known.filter(|known| is_expected(request, known)) {
        match prolong(inner, request, known, &attempt).await {
            Ok(expires_at) => return Ok(ExtendResult::Extended { expires_at }),
            // Another client has extended or released the lock. A query decides.
            Err(fault) if fault.is_conflict() => {}
            Err(fault) => return Err(fault),
        }
    }
    let mut held = by_lock_id::find(inner, request.lock_id, hint, &attempt).await?;
    held.delete_duplicates(inner);
    let found = match held.lock {
        Ok(lock) => Known { version: lock.version, expires_at: lock.expires_at },
        Err(reason) => return Ok(ExtendResult::NotHeld(reason)),
    };
    if !is_expected(request, &found) {
        let expires_at = found.expires_at;
        // The caller gets this expiry and probably extends again.
        inner.remember(request.lock_id, &found.version, expires_at);
        return Ok(ExtendResult::Mismatch { expires_at });
    }
    let expires_at = prolong(inner, request, found, &attempt).await?;
    Ok(ExtendResult::Extended { expires_at })
}

/// Returns whether the lock has the expiry that the caller expects, if it expects one.
fn is_expected(request: &ExtendRequest, known: &Known) -> bool {
    request.expected_expiry.is_none_or(|expected| expected == known.expires_at)
}

/// Sets the expiry if the lock still has the version that was seen: compare and set.
///
/// An earlier commit that was given up states a version that this commit replaces, so the earlier one is
/// void if it arrives later. A write that changes nothing would leave the version as it is, and the earlier
/// commit valid. So the expiry always changes: if it would stay the same, it is set a millisecond later.
async fn prolong(
    inner: &Inner,
    request: &ExtendRequest,
    seen: Known,
    attempt: &Attempt,
) -> Result<Timestamp, Fault> {
    let mut expires_at = inner.time()?.latest.plus(request.ttl)?;
    if expires_at == seen.expires_at {
        expires_at = expires_at.plus(Ttl::MIN)?;
    }
    let name = seen.version.name.clone();
    let answer = inner.commit(vec![put_expiry(seen.version, expires_at)], attempt).await?;
    inner.remember_written(request.lock_id, name, answer, expires_at);
    Ok(expires_at)
}
