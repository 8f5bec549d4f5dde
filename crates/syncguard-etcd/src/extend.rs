//! Extending a lock.

use std::sync::Arc;

use syncguard_core::authoring::StoreTime;
use syncguard_core::authoring::{Attempt, Fault};
use syncguard_core::contract::ExtendRequest;
use syncguard_core::{ExtendResult, LockError, Timestamp, Ttl};

use crate::error::Rpc;
use crate::find::{find, judge};
use crate::inner::{Changed, Inner};
use crate::record::{Held, Record, with_expiry};
use crate::txn::{self, Change, Version};

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
    let time = inner.time().await?;
    let (name, value, change) = extended(inner, &mut record, &version, request.ttl, time)?;
    match inner.change(change.or_read(&[&name]), &attempt).await? {
        Changed::Done(revision) => {
            let expires_at = record.expires_at;
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

/// Extends locks by one transaction, each under its own conditions. It leaves out a lock that is not in the memory as
/// expected, and all of them if the transaction fails: then each is read, and extended alone as after a lost answer.
pub(crate) async fn extend_many(
    inner: Arc<Inner>,
    requests: Vec<ExtendRequest>,
) -> Result<Vec<Option<Timestamp>>, LockError> {
    let mut results = vec![None; requests.len()];
    let (mut changes, mut written) = (Vec::new(), Vec::new());
    let Ok(time) = inner.time().await else { return Ok(results) };
    for (at, request) in requests.iter().enumerate() {
        let Ok(Some(Held { mut record, version })) = inner.known_live(request.lock_id).await else {
            continue;
        };
        // One name twice, as of a lost lock and its heir, is an error of the whole transaction.
        let is_new = |(_, other, _): &(usize, Record, _)| other.key != record.key;
        if request.expected_expiry == Some(record.expires_at) && written.iter().all(is_new) {
            let (_, value, change) = extended(&inner, &mut record, &version, request.ttl, time)?;
            changes.push(change);
            written.push((at, record, value));
        }
    }
    if written.is_empty() {
        return Ok(results);
    }
    let attempt = inner.attempts().attempt();
    let Ok(answer) = inner.txn(Rpc::Write, &Change::each(changes), &attempt).await else {
        return Ok(results);
    };
    let revision = txn::revision(&answer)?;
    for ((at, record, value), is_done) in written.into_iter().zip(txn::carried_out(answer)) {
        if is_done {
            results[at] = Some(record.expires_at);
            inner.remember(record, Version { revision, value });
        }
    }
    Ok(results)
}

/// Sets the expiry of a record. Returns its name, its new value, and the change.
fn extended(
    inner: &Inner,
    record: &mut Record,
    version: &Version,
    ttl: Ttl,
    time: StoreTime,
) -> Result<(String, Vec<u8>, Change), LockError> {
    let mut expires_at = time.latest.plus(ttl)?;
    if expires_at == record.expires_at {
        expires_at = expires_at.plus(Ttl::MIN)?;
    }
    record.expires_at = expires_at;
    let name = inner.layout.lock(record.key.expose());
    let value = with_expiry(&version.value, expires_at)?;
    let change = Change::default().if_version(&name, Some(version)).put(&name, value.clone());
    Ok((name, value, change))
}
