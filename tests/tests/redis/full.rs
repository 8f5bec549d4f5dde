//! A server that refuses writes: its memory is full, or it cannot persist.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard::redis::{RedisBackend, RedisOptions};
use syncguard::{ErrorCode, Fence, Key, LockBackend as _, LockConfig, LockError, acquire};
use syncguard_test_services::redis::RedisServer;
use syncguard_test_services::wait;

const MINUTE: Duration = Duration::from_secs(60);

fn assert_refused(error: &LockError, says: &str) {
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    assert!(error.message().contains(says) && !error.is_outcome_unknown(), "{error:?}");
}

/// Renewals, releases, the clean-up and the end of a minimum hold need no memory. A new lock does.
#[tokio::test]
async fn a_full_server_keeps_what_is_held() -> Result<()> {
    let server = RedisServer::start()?;
    let _replica = RedisServer::builder().replica_of(&server).start()?;
    let options = RedisOptions::new().with_operation_timeout(Duration::from_secs(30));
    let waiting = options.clone().with_wait_replicas(1);
    let waiting = waiting.with_wait_replicas_timeout(Duration::from_secs(10));
    for options in [options, waiting] {
        let backend = RedisBackend::connect_with(&server.url(), options).await?;
        let take = async |key: &str| -> Result<_> {
            let granted = backend.acquire(AcquireRequest::new(key, MINUTE)?).await?;
            granted.acquired().context("a free lock")
        };
        let config = |key| LockConfig::new(key).with_ttl(MINUTE);
        let mut renewed = acquire(&backend, config("renewed")).await?;
        let shortest = acquire(&backend, config("shortest").with_min_hold(MINUTE)).await?;
        let dropped = acquire(&backend, config("dropped")).await?;
        let (extended, overdue) = (take("extended").await?, take("overdue").await?);
        server.cli(&["CONFIG", "SET", "maxmemory", "100kb"])?;
        // The scripts are loaded again, as after a restart of a full server.
        server.cli(&["SCRIPT", "FLUSH"])?;

        let error = backend.acquire(AcquireRequest::new("new", MINUTE)?).await.unwrap_err();
        assert_refused(&error, "maxmemory");
        ensure!(renewed.extend(MINUTE).await?.is_extended());
        ensure!(renewed.release().await?.is_released());
        ensure!(shortest.release().await?.is_released());
        ensure!(backend.is_locked(IsLockedRequest::new("shortest")?).await?);
        drop(dropped);
        ensure!(backend.client_state().drained(MINUTE).await == 0);
        let key = Key::new("extended")?;
        for request in [
            ExtendRequest::new(extended.lock_id, MINUTE)?,
            ExtendRequest::new(extended.lock_id, MINUTE)?.with_key_hint(key),
        ] {
            ensure!(backend.extend(request).await?.is_extended());
        }
        for lock in [extended, overdue] {
            ensure!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        }
        let inventory = backend.inventory().context("an inventory")?;
        ensure!(inventory.raise_counter("extended", Fence::new(700)?).await?.get() == 700);

        server.cli(&["CONFIG", "SET", "maxmemory", "0"])?;
        ensure!(take("extended").await?.fence.get() == 701);
        ensure!(server.cli(&["PTTL", "syncguard:fence:syncguard:extended"])? == "-1");
        server.cli(&["FLUSHALL"])?;
    }
    Ok(())
}

/// Redis refuses each write then, also those of scripts. Nothing is granted, and what is held at the end is held on.
#[tokio::test]
async fn a_server_that_cannot_persist_refuses_and_forgets_nothing() -> Result<()> {
    let server =
        RedisServer::builder().config("save 3600 1").config("dbfilename no.rdb").start()?;
    let backend = RedisBackend::connect(&server.url()).await?;
    let granted = backend.acquire(AcquireRequest::new("held", MINUTE)?).await?;
    let held = granted.acquired().context("a free lock")?;
    // A folder in the place of the snapshot.
    std::fs::create_dir(server.folder().join("no.rdb"))?;
    server.cli(&["BGSAVE"])?;
    wait::until("MISCONF", MINUTE, || Ok(server.cli(&["SET", "x", "y"]).is_err()))?;
    let extend = ExtendRequest::new(held.lock_id, MINUTE)?;
    let release = ReleaseRequest::new(held.lock_id);
    assert_refused(
        &backend.extend(extend.clone()).await.unwrap_err(),
        "stop-writes-on-bgsave-error",
    );
    assert_refused(&backend.release(release.clone()).await.unwrap_err(), "cannot persist");
    ensure!(backend.acquire(AcquireRequest::new("held", MINUTE)?).await?.is_busy());
    server.cli(&["CONFIG", "SET", "stop-writes-on-bgsave-error", "no"])?;
    ensure!(backend.extend(extend).await?.is_extended());
    ensure!(backend.release(release).await?.is_released());
    Ok(())
}
