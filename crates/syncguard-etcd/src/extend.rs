//! Extending a lock.

use std::sync::Arc;

use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, Ttl};

use crate::find::{find, judge};
use crate::inner::{Changed, Inner};
use crate::record::{Held, with_expiry};
use crate::txn::{Change, Version};

/// A second try may find the expiry that our own first transaction has set, if its answer was lost. A caller that expects
/// an expiry then gets an ordinary mismatch, with the expiry that the lock has now.
pub(crate) async fn extend(
    inner: Arc<Inner>,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let result = inner.attempts().run(|attempt| once(&inner, &request, attempt)).await;
    result.map_err(|error| error.with_lock_id(request.lock_id))
}

/// Sets the expiry if the lock still has the version that was seen: compare and set.
///
/// An earlier transaction that was given up states a version that this one replaces, so the earlier one is void if it
/// arrives later. The expiry always changes, so that a holder never takes an earlier answer for a later one: if it would
/// stay the same, it is set a millisecond later.
async fn once(
    inner: &Inner,
    request: &ExtendRequest,
    attempt: Attempt,
) -> Result<ExtendResult, Fault> {
    let is_expected = |held: &Held| {
        let expires_at = held.record.expires_at;
        request.expected_expiry.is_none_or(|expected| expected == expires_at)
    };
    let held = match inner.known_live(request.lock_id).await?.filter(is_expected) {
        Some(known) => known,
        None => match find(inner, request.lock_id, request.key_hint.as_ref(), &attempt).await? {
            Ok(found) => found,
            Err(reason) => return Ok(ExtendResult::NotHeld(reason)),
        },
    };
    let is_expected = is_expected(&held);
    let Held { mut record, version } = held;
    if !is_expected {
        let expires_at = record.expires_at;
        // The caller gets this expiry and probably extends again.
        inner.remember(record, version);
        return Ok(ExtendResult::Mismatch { expires_at });
    }
    let mut expires_at = inner.time().await?.latest.plus(request.ttl)?;
    if expires_at == record.expires_at {
        expires_at = expires_at.plus(Ttl::MIN)?;
    }
    record.expires_at = expires_at;
    let value = with_expiry(&version.value, expires_at)?;
    let name = inner.layout.lock(record.key.expose());
    let change = Change::default()
        .if_version(&name, Some(&version))
        .put(&name, value.clone())
        .or_read(&[&name]);
    match inner.change(change, &attempt).await? {
        Changed::Done(revision) => {
            inner.remember(record, Version { revision, value });
            Ok(ExtendResult::Extended { expires_at })
        }
        Changed::Refused([lock]) => match judge(inner, &record.key, request.lock_id, lock).await? {
            // Another client has extended the lock meanwhile.
            Ok(_) => Err(Fault::conflict()),
            Err(reason) => Ok(ExtendResult::NotHeld(reason)),
        },
    }
}
