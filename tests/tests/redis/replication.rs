//! Replicas: waiting for them, losing the master, and Sentinel.

use std::time::Duration;

use anyhow::Result;
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{ErrorCode, Fence, Key, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::ports;
use syncguard_test_services::redis::{RedisServer, Sentinel};
use syncguard_tests::inventory::inventory;
use tokio::time::timeout;

use crate::redis::signals::{SOON, hears, listeners, until, watch};
use crate::redis::support::{Raw, backend_with, request, take};

/// A replica confirms a write within this time, sooner or later.
const WAITING: Duration = Duration::from_secs(20);

fn waiting_for(time: Duration) -> RedisOptions {
    let options = RedisOptions::new().with_wait_replicas(1).with_wait_replicas_timeout(time);
    options.with_operation_timeout(Duration::from_secs(60))
}

#[tokio::test]
async fn a_lock_counts_when_replicas_have_it() -> Result<()> {
    let master = RedisServer::start()?;
    let mut replica = RedisServer::builder().replica_of(&master).start()?;
    let raw = Raw::connect(&master.url()).await;
    wait_for_replica(&raw).await;
    let backend = backend_with(&master, waiting_for(WAITING)).await;
    let in_vain = backend_with(&master, waiting_for(Duration::from_secs(1))).await;
    let lock = take(&backend, "k", 60_000).await;
    assert_eq!(replica.cli(&["GET", "syncguard:fence:syncguard:k"])?, "1");
    let extend = || ExtendRequest::new(lock.lock_id, Duration::from_secs(60));
    assert!(backend.extend(extend()?).await?.is_extended());
    assert!(!backend.acquire(request("k", 1000)).await?.is_acquired());
    // Also if the script has to be sent in full.
    raw.send("SCRIPT", &["FLUSH"]).await;
    let _ = take(&backend, "flushed", 1000).await;

    replica.pause()?;
    let error = in_vain.acquire(request("short", 60_000)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    assert!(error.message().contains("0 of 1 replicas"), "{error}");
    assert!(!backend.is_locked(IsLockedRequest::new("short")?).await?, "given back");
    let error = in_vain.extend(extend()?).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    // A contended acquire has written nothing, and is no error.
    assert!(!in_vain.acquire(request("k", 1000)).await?.is_acquired());
    let release = ReleaseRequest::new(lock.lock_id);
    let counted = release.with_counter_at_least(Key::new("k")?, Fence::new(9)?)?;
    assert!(in_vain.release(counted).await.unwrap_err().is_outcome_unknown());
    let raised = inventory(&in_vain).raise_counter("k", Fence::new(19)?).await;
    assert!(raised.unwrap_err().is_outcome_unknown());
    // A lock that cannot be given back at once is left to the clean-up.
    raw.send("ACL", &["SETUSER", "default", "-del"]).await;
    let error = in_vain.acquire(request("kept", 60_000)).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    raw.send("ACL", &["SETUSER", "default", "+del"]).await;

    replica.resume()?;
    let lock = take(&backend, "short", 60_000).await;
    assert_eq!(lock.fence.get(), 2);
    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// Waits until a replica has all writes.
async fn wait_for_replica(raw: &Raw) {
    raw.send("SET", &["last", "word"]).await;
    assert_eq!(raw.number("WAIT", &["1", "10000"]).await, 1);
}

#[tokio::test]
async fn an_error_says_whether_a_sentinel_answered() -> Result<()> {
    let message = async |url: &str| {
        let options = RedisOptions::new().with_connect_timeout(Duration::from_secs(5));
        let error = RedisBackend::connect_with(url, options).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
        error.message().to_owned()
    };
    let (one, other) = (ports::free()?, ports::free()?);
    let nobody =
        format!("redis-sentinel://127.0.0.1:{one}?node=127.0.0.1:{other}&sentinelServiceName=m");
    let said = message(&nobody).await;
    assert!(said.starts_with("no Sentinel answered at the given addresses"), "{said}");

    let master = RedisServer::start()?;
    let sentinel = Sentinel::start(&master, 1)?;
    let said = message(&(sentinel.url() + "-of-another-name")).await;
    assert!(said.starts_with("the Sentinels know no master of the name"), "{said}");
    Ok(())
}

#[tokio::test]
async fn sentinel_leads_to_the_master_and_to_the_next_one() -> Result<()> {
    let mut master = RedisServer::builder().password("s3cret").start()?;
    let replica = RedisServer::builder().password("s3cret").replica_of(&master).start()?;
    let sentinel = Sentinel::start(&master, 1)?;
    sentinel.wait_for_replicas(1)?;
    wait_for_replica(&Raw::connect(&master.url()).await).await;
    let backend = RedisBackend::connect_with(&sentinel.url(), waiting_for(WAITING)).await?;
    let lock = take(&backend, "k", 60_000).await;
    let waiting = RedisBackend::connect(&sentinel.url()).await?;
    hears(&backend, &waiting, "heard").await?;
    assert_eq!(listeners(&Raw::connect(&master.url()).await).await.len(), 1);
    let mut lost = watch(&waiting, "k").await.expect("a watch");

    master.kill()?;
    timeout(SOON, lost.changed()).await?;
    assert!(lost.is_over());
    assert_eq!(sentinel.wait_for_failover(master.port())?, replica.port());
    // The new master has no replica left, so from here on the test does not wait for one.
    until("the new master", async || RedisBackend::connect(&sentinel.url()).await.is_ok()).await;
    let plain = RedisBackend::connect(&sentinel.url()).await?;
    // The confirmed lock is there.
    let found = plain.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.expect("the lock");
    assert_eq!(found.fence, lock.fence);
    // The backend that lost the master has followed.
    until("it has followed", async || {
        backend.is_locked(IsLockedRequest::new("k").unwrap()).await.is_ok()
    })
    .await;
    let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
    assert!(plain.extend(extend).await?.is_extended());
    assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    assert_eq!(take(&plain, "k", 1000).await.fence.get(), 2);
    // Signals have followed, too.
    let raw = Raw::connect(&replica.url()).await;
    until("it listens to the new master", async || {
        watch(&waiting, "other").await.is_some() && listeners(&raw).await.len() == 1
    })
    .await;
    hears(&plain, &waiting, "heard later").await?;
    Ok(())
}
