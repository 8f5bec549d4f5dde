//! Events between an operation's read and its commit.

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::{IsLockedRequest, LookupRequest};
use syncguard_firestore::gcloud_sdk::google::firestore::v1::value::ValueType;
use syncguard_firestore::{ErrorCode, FirestoreBackend, LockBackend as _, NotHeld, ReleaseResult};
use syncguard_tests::calls::until;

use crate::firestore::gateway::Gateway;
use crate::firestore::operations::{FAR, extend, release};
use crate::firestore::support::{Raw, backend, backend_with, fresh, options_at, request, take};

/// Waits until the backend finds the lock over.
async fn is_over(backend: &FirestoreBackend) {
    until("over", async || !backend.is_locked(IsLockedRequest::new("k").unwrap()).await.unwrap())
        .await;
}

/// Without a precondition on the lock, the contender would overwrite it.
#[tokio::test]
async fn an_extend_in_flight_beats_a_contender() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let (raw, holder) = (Raw::new(&url), backend(&url).await);
    let contender = backend_with(&url, options_at(gateway.port)).await;
    let held = take(&holder, "k", 1).await;
    is_over(&contender).await;
    // A holder that knows an earlier time, or was slow, still extends.
    let contending = gateway.meanwhile("Commit", contender.acquire(request("k", 60_000)), async {
        let mut stored = raw.get("locks/k").await.context("a lock")?;
        stored.insert("expiresAtMs".to_owned(), ValueType::IntegerValue(FAR));
        raw.set("locks/k", stored).await;
        Ok(())
    });
    assert!(contending.await??.is_busy());
    assert!(release(&holder, held.lock_id).await?.is_released());
    assert_eq!(take(&holder, "k", 1).await.fence.get(), 2, "contention uses up no fence");
    Ok(())
}

/// Without a precondition on the counter, the contender would repeat a fence. Without retries, the other caller's
/// lock meanwhile is contention, and no error.
#[tokio::test]
async fn a_lock_taken_and_released_meanwhile_is_noticed() -> Result<()> {
    for retries in [24, 0] {
        let (gateway, url) = (Gateway::start(), fresh());
        let other = backend(&url).await;
        let through = options_at(gateway.port).with_conflict_retries(retries);
        let slow = backend_with(&url, through).await;
        let taking = gateway.meanwhile("Commit", slow.acquire(request("k", 60_000)), async {
            let quick = take(&other, "k", 60_000).await;
            assert_eq!(quick.fence.get(), 1);
            assert!(release(&other, quick.lock_id).await?.is_released());
            Ok(())
        });
        let next = match taking.await??.acquired() {
            Some(next) if retries > 0 => next,
            answer => {
                assert_eq!((answer, retries), (None, 0));
                take(&slow, "k", 60_000).await
            }
        };
        assert_eq!(next.fence.get(), 2);
    }
    Ok(())
}

/// A contender that always loses gives up soon, although the key is free whenever it looks.
#[tokio::test]
async fn who_is_always_beaten_hears_of_contention() -> Result<()> {
    let (gateway, url) = (Gateway::start(), fresh());
    let quick = backend(&url).await;
    let slow = backend_with(&url, options_at(gateway.port)).await;
    let mut hold = gateway.hold("Commit");
    let mut taking = tokio::spawn(async move { slow.acquire(request("k", 60_000)).await });
    let mut beaten = 0;
    let answer = loop {
        let (there, go_on) = hold;
        tokio::select! {
            () = there.notified() => {}
            answer = &mut taking => break answer??,
        }
        let lock = take(&quick, "k", 60_000).await;
        assert!(release(&quick, lock.lock_id).await?.is_released());
        beaten += 1;
        hold = gateway.hold("Commit");
        go_on.notify_one();
    };
    assert_eq!((answer.is_busy(), beaten), (true, 4));
    Ok(())
}

/// An expired lock that was removed meanwhile had no owner, so this is not contention.
#[tokio::test]
async fn a_lock_cleared_away_meanwhile_is_taken() -> Result<()> {
    for retries in [24, 0] {
        let (gateway, url) = (Gateway::start(), fresh());
        let through = options_at(gateway.port).with_conflict_retries(retries);
        let slow = backend_with(&url, through).await;
        let first = take(&backend(&url).await, "k", 1).await;
        is_over(&slow).await;
        let taking = gateway.meanwhile("Commit", slow.acquire(request("k", 60_000)), async {
            Raw::new(&url).delete("locks/k").await;
            Ok(())
        });
        match taking.await? {
            Ok(result) => {
                let next = result.acquired().context("free")?;
                assert_eq!((first.fence.get(), next.fence.get()), (1, 2));
                assert!(retries > 0);
            }
            Err(error) => {
                assert_eq!((error.code(), retries), (ErrorCode::ServiceUnavailable, 0));
                assert!(error.is_retryable() && !error.is_outcome_unknown());
            }
        }
    }
    Ok(())
}

/// Without a precondition on the version, the successor's lock would be deleted or prolonged.
#[tokio::test]
async fn a_successor_is_left_alone() -> Result<()> {
    for remembered in [0, 10] {
        let (gateway, url) = (Gateway::start(), fresh());
        let through = options_at(gateway.port).with_remembered_locks(remembered);
        let holder = backend_with(&url, through).await;
        let successor = backend(&url).await;
        let held = take(&holder, "k", 60_000).await;
        let mut next = None;
        let releasing = gateway.meanwhile("Commit", release(&holder, held.lock_id), async {
            assert!(release(&successor, held.lock_id).await?.is_released());
            next = Some(take(&successor, "k", 60_000).await);
            Ok(())
        });
        assert_eq!(releasing.await??, ReleaseResult::NotHeld(NotHeld::NotFound));

        let (next, mut last) = (next.context("a lock")?, None);
        let extending = gateway.meanwhile("Commit", extend(&holder, next.lock_id), async {
            assert!(release(&successor, next.lock_id).await?.is_released());
            last = Some(take(&successor, "k", 60_000).await);
            Ok(())
        });
        assert!(!extending.await??);
        let last = last.context("a lock")?;
        let found = successor.lookup(LookupRequest::by_key("k")?).await?.context("a lock")?;
        assert_eq!((found.fence, found.expires_at), (last.fence, last.expires_at));
    }
    Ok(())
}
