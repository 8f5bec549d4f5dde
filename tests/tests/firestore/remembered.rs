//! A backend's memory of its own locks saves calls, and changes no answer.

use std::time::Duration;

use anyhow::Result;
use syncguard_firestore::contract::{ExtendRequest, LookupRequest};
use syncguard_firestore::{
    ErrorCode, ExtendResult, FirestoreOptions, LockBackend as _, NotHeld, ReleaseResult,
};

use crate::firestore::operations::{extend, release};
use crate::firestore::support::{Raw, backend, fresh, request, take};

#[tokio::test]
async fn what_is_remembered_wrongly_is_looked_up() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let (ours, other) = (raw.backend(&url, &FirestoreOptions::new()), backend(&url).await);

    // The lock was extended elsewhere: both of our operations work, and the first one notices.
    let lock = take(&ours, "k", 60_000).await;
    assert!(extend(&other, lock.lock_id).await?);
    raw.calls();
    assert!(extend(&ours, lock.lock_id).await?);
    assert_eq!(raw.calls(), 3, "a commit in vain, a query, a commit");
    assert!(extend(&ours, lock.lock_id).await?);
    assert_eq!(raw.calls(), 1);

    // The lock was released elsewhere and taken by another caller: our operation changes nothing.
    assert!(release(&other, lock.lock_id).await?.is_released());
    let next = take(&other, "k", 60_000).await;
    assert!(!extend(&ours, lock.lock_id).await?);
    assert_eq!(release(&ours, lock.lock_id).await?, ReleaseResult::NotHeld(NotHeld::NotFound));
    assert!(release(&other, next.lock_id).await?.is_released());

    // No update time comes twice, so the memory identifies one state of one document.
    let lock = take(&ours, "k", 60_000).await;
    assert!(release(&other, lock.lock_id).await?.is_released());
    let again = request("k", 60_000).with_lock_id(lock.lock_id);
    assert!(other.acquire(again).await?.is_acquired());
    raw.calls();
    assert!(release(&ours, lock.lock_id).await?.is_released());
    assert_eq!(raw.calls(), 3, "a commit in vain, a query, a commit");
    Ok(())
}

/// The answers are those of the conformance suite; here it is about the calls.
#[tokio::test]
async fn an_expected_expiry_is_compared_with_what_is_remembered() -> Result<()> {
    let url = fresh();
    let (raw, other) = (Raw::new(&url), backend(&url).await);
    for (remembered, right, in_vain) in [(10, 1, 2), (0, 2, 1)] {
        let ours = raw.backend(&url, &FirestoreOptions::new().with_remembered_locks(remembered));
        let lock = take(&ours, "k", 60_000).await;
        let expecting = async |expected| {
            let request = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
            let answer = ours.extend(request.with_expected_expiry(expected)).await?;
            anyhow::Ok((answer, raw.calls()))
        };
        let stored = async || {
            let found = other.lookup(LookupRequest::by_key("k")?).await?;
            anyhow::Ok(found.expect("a lock").expires_at)
        };
        raw.calls();
        let (answer, calls) = expecting(lock.expires_at).await?;
        let known = stored().await?;
        assert_eq!((answer, calls), (ExtendResult::Extended { expires_at: known }, right));
        // The memory is right, and the caller is wrong: nothing is written.
        let version = raw.update_time("locks/k").await;
        raw.calls();
        let mismatch = ExtendResult::Mismatch { expires_at: known };
        assert_eq!(expecting(lock.expires_at).await?, (mismatch, 1), "a query");
        assert_eq!(raw.update_time("locks/k").await, version);
        // The memory is wrong, since the lock was extended elsewhere.
        assert!(extend(&other, lock.lock_id).await?);
        let expires_at = stored().await?;
        raw.calls();
        assert_eq!(expecting(known).await?, (ExtendResult::Mismatch { expires_at }, in_vain));
        let (answer, calls) = expecting(expires_at).await?;
        assert_eq!((answer.is_extended(), calls), (true, right));
        assert!(release(&ours, lock.lock_id).await?.is_released());
    }
    Ok(())
}

/// A lock id names one lock. A backend that knows the lock under another key reports an error.
#[tokio::test]
async fn a_lock_id_is_not_taken_for_a_second_key() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let (ours, other) = (raw.backend(&url, &FirestoreOptions::new()), backend(&url).await);
    let lock = take(&ours, "a", 60_000).await;
    let second = || request("b", 60_000).with_lock_id(lock.lock_id);
    raw.calls();
    let error = ours.acquire(second()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
    assert_eq!(raw.calls(), 1, "one read of all that matters");
    assert_eq!(
        (raw.ids("locks").await, raw.ids("fence_counters").await.len()),
        (vec!["a".to_owned()], 1)
    );
    // The same request for its own key gets the usual answer.
    let same = ours.acquire(request("a", 60_000).with_lock_id(lock.lock_id)).await?;
    assert_eq!(same.acquired().map(|same| same.fence), Some(lock.fence));

    // Contention comes first, and a wrong memory refuses nothing.
    let held = take(&other, "b", 60_000).await;
    assert!(ours.acquire(second()).await?.is_busy());
    assert!(release(&other, held.lock_id).await?.is_released());
    assert!(release(&other, lock.lock_id).await?.is_released());
    assert!(ours.acquire(second()).await?.is_acquired());
    Ok(())
}
