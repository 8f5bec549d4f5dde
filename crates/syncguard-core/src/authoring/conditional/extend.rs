//! Extending a lock.

use super::records::{Change, StoredLock, Written};
use super::{Conditional, ConditionalStore};
use crate::authoring::attempts::Attempt;
use crate::authoring::failure::Fault;
use crate::contract::request::ExtendRequest;
use crate::contract::response::ExtendResult;
use crate::value::{LockError, Timestamp, Ttl};

/// A second try may find the expiry that our own first change has set, if its answer was lost. A caller that expects an
/// expiry then gets an ordinary mismatch, with the expiry that the lock has now.
pub(super) async fn extend<S: ConditionalStore>(
    backend: Conditional<S>,
    request: ExtendRequest,
) -> Result<ExtendResult, LockError> {
    let result = backend.attempts().run(|attempt| once(&backend, &request, attempt)).await;
    result.map_err(|error| error.with_lock_id(request.lock_id))
}

async fn once<S: ConditionalStore>(
    backend: &Conditional<S>,
    request: &ExtendRequest,
    attempt: Attempt,
) -> Result<ExtendResult, Fault> {
    let lock_id = request.lock_id;
    let is_expected = |held: &StoredLock<_>| {
        request.expected_expiry.is_none_or(|expected| expected == held.record.expires_at)
    };
    let mut hint = request.key_hint.as_ref();
    if let Some(known) = backend.known_live(lock_id).await?.filter(is_expected) {
        match prolong(backend, request, known, &attempt).await {
            // Another client has extended or released the lock, and the hint would lead to the same record.
            Err(fault) if fault.is_conflict() => hint = None,
            answered => return answered,
        }
    }
    match backend.find(lock_id, hint, &attempt).await? {
        Err(reason) => Ok(ExtendResult::NotHeld(reason)),
        Ok(held) if is_expected(&held) => prolong(backend, request, held, &attempt).await,
        Ok(StoredLock { record, version }) => {
            let expires_at = record.expires_at;
            // The caller gets this expiry and probably extends again.
            backend.remember(record, Some(version));
            Ok(ExtendResult::Mismatch { expires_at })
        }
    }
}

/// Sets the expiry if the lock still has the version that was seen: compare and set.
///
/// An earlier change that was given up states a version that this one replaces, so the earlier one is void if it arrives
/// later.
async fn prolong<S: ConditionalStore>(
    backend: &Conditional<S>,
    request: &ExtendRequest,
    mut seen: StoredLock<S::Version>,
    attempt: &Attempt,
) -> Result<ExtendResult, Fault> {
    let latest = backend.store().time().await?.latest;
    let expires_at = next_expiry(latest, request.ttl, &seen)?;
    match backend.store().write(&Change::extend(&seen, expires_at), attempt).await? {
        Written::Done(version) => {
            seen.record.expires_at = expires_at;
            backend.remember(seen.record, version);
            Ok(ExtendResult::Extended { expires_at })
        }
        Written::Refused(now) => {
            Ok(ExtendResult::NotHeld(backend.why_refused(now, request.lock_id).await?))
        }
    }
}

/// The expiry always changes, so that the version does as well, and a holder never takes an earlier answer for a later one:
/// if it would stay the same, it is set a millisecond later.
fn next_expiry<V>(now: Timestamp, ttl: Ttl, seen: &StoredLock<V>) -> Result<Timestamp, LockError> {
    let expires_at = now.plus(ttl)?;
    if expires_at == seen.record.expires_at { expires_at.plus(Ttl::MIN) } else { Ok(expires_at) }
}

/// Extends locks by one request, each under its own conditions. It leaves out a lock that is not in the memory as expected,
/// and all of them if the request fails: then each is read, and extended alone as after a lost answer.
pub(super) async fn extend_many<S: ConditionalStore>(
    backend: Conditional<S>,
    requests: Vec<ExtendRequest>,
) -> Result<Vec<Option<Timestamp>>, LockError> {
    let mut results = vec![None; requests.len()];
    let mut wanted: Vec<(usize, StoredLock<S::Version>, Timestamp)> = Vec::new();
    let Ok(time) = backend.store().time().await else { return Ok(results) };
    for (at, request) in requests.iter().enumerate() {
        let Ok(Some(known)) = backend.known_live(request.lock_id).await else { continue };
        // One key twice, as of a lost lock and its heir, may be an error of the whole request.
        let is_new = wanted.iter().all(|(_, other, _)| other.record.key != known.record.key);
        if is_new && request.expected_expiry == Some(known.record.expires_at) {
            let expires_at = next_expiry(time.latest, request.ttl, &known)?;
            wanted.push((at, known, expires_at));
        }
    }
    if wanted.is_empty() {
        return Ok(results);
    }
    let changes: Vec<_> =
        wanted.iter().map(|(_, known, expires_at)| Change::extend(known, *expires_at)).collect();
    let attempt = backend.attempts().attempt();
    let Ok(versions) = backend.store().write_each(&changes, &attempt).await else {
        return Ok(results);
    };
    for ((at, mut known, expires_at), version) in wanted.into_iter().zip(versions) {
        if version.is_some() {
            results[at] = Some(expires_at);
            known.record.expires_at = expires_at;
            backend.remember(known.record, version);
        }
    }
    Ok(results)
}
