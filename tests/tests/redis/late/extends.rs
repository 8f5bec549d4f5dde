//! Extends and releases that arrive late.

use std::time::Duration;

use anyhow::Result;
use syncguard_redis::contract::{ExtendRequest, ReleaseRequest};
use syncguard_redis::{
    AutoExtend, ExtendResult, LockBackend as _, LockConfig, LockGuard, RedisBackend, Timestamp,
    try_acquire,
};
use tokio::time::timeout;

use super::{HOUR, Line, insist};
use crate::redis::support::{request, take};

/// Longer than a test: no request in these tests is refused for its age.
const PATIENT: u64 = 10_000;

/// The limit of a request that is given up.
const IMPATIENT: u64 = 500;

/// A deadline is the latest possible time of the server's clock; its error depends on the duration of the answers
/// that it was learned from, which came within the limit.
const UNSURE: Duration = Duration::from_millis(IMPATIENT + 200);

/// Checks that the lock ends in the store when its holder expects it, and that no other caller gets it.
async fn is_kept(line: &Line, key: &str, guard: &LockGuard<RedisBackend>) -> Result<()> {
    assert_eq!(line.expiry(key).await, Some(guard.expires_at().as_millis()));
    assert!(guard.valid_for() > Duration::from_secs(50), "{:?}", guard.valid_for());
    assert!(!line.direct.acquire(request(key, 1000)).await?.is_acquired());
    Ok(())
}

#[tokio::test]
async fn a_renewal_that_is_overtaken_shortens_no_lock() -> Result<()> {
    tokio::try_join!(overtaken_renewal(1), overtaken_renewal(2))?;
    Ok(())
}

/// With one connection a request is overtaken after that connection was lost, with two at once.
async fn overtaken_renewal(connections: usize) -> Result<()> {
    let line = Line::start().await?;
    let backend = line.backend(connections, PATIENT).await?;
    let config = LockConfig::new("k").with_ttl(Duration::from_secs(15));
    let config = config.with_auto_extend(AutoExtend::default());
    let mut guard = try_acquire(&backend, config).await?.acquired().expect("free");
    line.hold_next();
    line.caught().await;
    if connections == 1 {
        line.proxy.sever_clients();
    }
    let long = insist(async || guard.extend(Duration::from_secs(60)).await).await;
    assert!(long.is_extended());
    is_kept(&line, "k", &guard).await?;
    line.deliver().await;
    is_kept(&line, "k", &guard).await?;
    assert!(guard.release().await?.is_released());
    Ok(())
}

#[tokio::test]
async fn an_extend_that_was_given_up_shortens_no_lock() -> Result<()> {
    for connections in [1, 2] {
        let line = Line::start().await?;
        let backend = line.backend(connections, PATIENT).await?;
        let mut guard = try_acquire(&backend, "k").await?.acquired().expect("free");
        line.hold_next();
        let short = guard.extend(Duration::from_secs(10));
        timeout(Duration::from_millis(100), short).await.expect_err("held");
        line.caught().await;
        // Until the outcome is known, the earliest possible expiry counts.
        assert!(guard.valid_for() <= Duration::from_secs(10));
        if connections == 1 {
            line.proxy.sever_clients();
        }
        let long = insist(async || guard.extend(Duration::from_secs(60)).await).await;
        assert!(long.is_extended());
        line.deliver().await;
        is_kept(&line, "k", &guard).await?;
        assert!(guard.release().await?.is_released());
    }
    Ok(())
}

#[tokio::test]
async fn an_extend_whose_answer_was_lost_is_followed_by_the_next() -> Result<()> {
    let line = Line::start().await?;
    let backend = line.backend(1, PATIENT).await?;
    let mut guard = try_acquire(&backend, "k").await?.acquired().expect("free");
    line.proxy.set_latency(Duration::ZERO, Duration::from_millis(300));
    let short = guard.extend(Duration::from_secs(10));
    timeout(Duration::from_millis(100), short).await.expect_err("late");
    // The store has another expiry now than the guard knows, and reports it.
    assert!(guard.extend(Duration::from_secs(60)).await?.is_extended());
    line.proxy.set_latency(Duration::ZERO, Duration::ZERO);
    is_kept(&line, "k", &guard).await
}

#[tokio::test]
async fn an_expected_expiry_is_compared_and_nothing_else_changes() -> Result<()> {
    let line = Line::start().await?;
    let lock = take(&line.direct, "k", 60_000).await;
    let extend = |expected| {
        let ttl = Duration::from_secs(5);
        let extend = ExtendRequest::new(lock.lock_id, ttl).unwrap();
        line.direct.extend(extend.with_expected_expiry(expected))
    };
    for off_by in [-1_i64, 1] {
        let other = lock.expires_at.as_millis().checked_add_signed(off_by).unwrap();
        let result = extend(Timestamp::from_millis(other)?).await?;
        assert_eq!(result, ExtendResult::Mismatch { expires_at: lock.expires_at });
        assert_eq!(line.expiry("k").await, Some(lock.expires_at.as_millis()));
    }
    assert!(extend(lock.expires_at).await?.is_extended());
    assert!(!extend(lock.expires_at).await?.is_extended());
    Ok(())
}

#[tokio::test]
async fn an_extend_past_its_deadline_changes_nothing() -> Result<()> {
    for sever in [false, true] {
        let line = Line::start().await?;
        let backend = line.backend(1, IMPATIENT).await?;
        let lock = take(&line.direct, "k", 600_000).await;
        line.hold_next();
        let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(3600))?;
        let error = backend.extend(extend).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error:?}");
        tokio::time::sleep(UNSURE).await;
        if sever {
            line.proxy.sever_clients();
        }
        line.deliver().await;
        assert_eq!(line.expiry("k").await, Some(lock.expires_at.as_millis()));
    }
    Ok(())
}

#[tokio::test]
async fn a_release_past_its_deadline_frees_nothing() -> Result<()> {
    for sever in [false, true] {
        let line = Line::start().await?;
        let backend = line.backend(1, IMPATIENT).await?;
        let lock = take(&line.direct, "k", HOUR).await;
        line.hold_next();
        let error = backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error:?}");
        // The caller that gave up the release still has the lock, and goes on with it.
        let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
        assert!(line.direct.extend(extend).await?.is_extended());
        let expiry = line.expiry("k").await;
        tokio::time::sleep(UNSURE).await;
        if sever {
            line.proxy.sever_clients();
        }
        line.deliver().await;
        assert_eq!(line.expiry("k").await, expiry);

        // The late release does not free the lock of another caller either.
        assert!(line.direct.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    Ok(())
}

#[tokio::test]
async fn a_release_that_is_overtaken_frees_no_other_lock() -> Result<()> {
    let line = Line::start().await?;
    let backend = line.backend(1, PATIENT).await?;
    let lock = take(&backend, "k", HOUR).await;
    line.hold_next();
    let release = backend.release(ReleaseRequest::new(lock.lock_id));
    timeout(Duration::from_millis(50), release).await.expect_err("held");
    line.caught().await;
    assert!(line.direct.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    let next = take(&line.direct, "k", HOUR).await;
    line.deliver().await;
    assert_eq!(line.expiry("k").await, Some(next.expires_at.as_millis()));
    Ok(())
}
