//! Events between an operation's read and its commit.

use anyhow::{Context as _, Result};
use syncguard_firestore::contract::IsLockedRequest;
use syncguard_firestore::{ErrorCode, FirestoreBackend, LockBackend as _};
use syncguard_tests::calls::until;

use crate::firestore::gateway::Gateway;
use crate::firestore::operations::release;
use crate::firestore::support::{Raw, backend, backend_with, fresh, options_at, request, take};

/// Waits until the backend finds the lock over.
async fn is_over(backend: &FirestoreBackend) {
    until("over", async || !backend.is_locked(IsLockedRequest::new("k").unwrap()).await.unwrap())
        .await;
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
