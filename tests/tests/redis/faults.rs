//! Faults of the network and the server.

use std::future::Future;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{
    LockBackend as _, LockError, NotHeld, RedisBackend, RedisOptions, ReleaseResult,
};
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};
use syncguard_test_services::redis::RedisServer;
use tokio::task::JoinSet;

use crate::redis::signals::until;
use crate::redis::support::{
    backend, backend_with, every_operation, fresh, patient, request, shared, take,
};

const COMMAND_TIMEOUT: Duration = Duration::from_millis(400);
/// How much longer a call may take on a busy machine.
const SLACK: Duration = Duration::from_secs(20);

fn quick() -> RedisOptions {
    RedisOptions::new().with_operation_timeout(COMMAND_TIMEOUT)
}

/// A backend whose connections have no name, so that each reply is the reply to a call.
async fn through(proxy: &FaultProxy, options: RedisOptions) -> Result<RedisBackend> {
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    Ok(RedisBackend::connect_with(&url, options.with_holder("")).await?)
}

/// Waits until the key is free.
async fn freed(backend: &RedisBackend, key: &str) -> Result<()> {
    let started = Instant::now();
    while eventually(|| backend.lookup(LookupRequest::by_key(key).unwrap())).await.is_some() {
        anyhow::ensure!(started.elapsed() < Duration::from_secs(60), "still held");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

/// Retries until the fault is over.
async fn eventually<T, F: Future<Output = Result<T, LockError>>>(mut call: impl FnMut() -> F) -> T {
    let started = Instant::now();
    loop {
        match call().await {
            Ok(result) => return result,
            Err(error) => assert!(error.is_retryable(), "{error:?}"),
        }
        assert!(started.elapsed() < Duration::from_secs(60), "no service 60 s after the fault");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// `$50`, a lock id, a fence and an expiry, and two line ends.
const ACQUIRE_REPLY: usize = 5 + 22 + 15 + 13 + 2;
/// An expiry as a number.
const EXTEND_REPLY: usize = 1 + 13 + 2;
const RELEASE_REPLY: usize = 4;

#[tokio::test(flavor = "multi_thread")]
async fn what_is_cut_at_any_byte_of_its_reply_happened_and_leaves_no_lock() -> Result<()> {
    // The server answers `NOSCRIPT` to an unknown script, and that answer must not be what is cut.
    let direct = backend(shared()).await;
    every_operation(&direct, &fresh("scripts")).await?;
    let mut cases = JoinSet::new();
    for cut in 0..=ACQUIRE_REPLY {
        cases.spawn(acquire_cut_at(cut, direct.clone()));
    }
    for cut in 0..=EXTEND_REPLY {
        cases.spawn(extend_and_release_cut_at(cut, direct.clone()));
    }
    while let Some(result) = cases.join_next().await {
        result??;
    }
    Ok(())
}

async fn acquire_cut_at(cut: usize, direct: RedisBackend) -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let backend = through(&proxy, patient()).await?;
    let key = fresh("cut-acquire");
    proxy.set_reply_cut(ReplyCut::Once(cut));
    let started = Instant::now();
    let result = backend.acquire(request(&key, 3_600_000)).await;
    assert!(started.elapsed() < SLACK, "an error at once, long before the timeout");
    if cut == ACQUIRE_REPLY {
        assert!(result?.is_acquired());
        return Ok(());
    }
    let error = result.unwrap_err();
    assert!(error.is_outcome_unknown() && error.is_retryable(), "{cut}: {error:?}");
    freed(&direct, &key).await?;
    assert_eq!(take(&direct, &key, 1000).await.fence.get(), 2, "it had been granted");
    assert_eq!(proxy.counters().cuts, 1);
    eventually(|| backend.is_locked(IsLockedRequest::new("x").unwrap())).await;
    Ok(())
}

async fn extend_and_release_cut_at(cut: usize, direct: RedisBackend) -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let backend = through(&proxy, patient()).await?;
    let key = fresh("cut-extend");
    let lock = take(&backend, &key, 60_000).await;
    let extend = || ExtendRequest::new(lock.lock_id, Duration::from_secs(600)).unwrap();
    proxy.set_reply_cut(ReplyCut::Once(cut));
    let started = Instant::now();
    let result = backend.extend(extend()).await;
    assert!(started.elapsed() < SLACK, "an error at once, long before the timeout");
    assert_eq!(result.is_ok(), cut == EXTEND_REPLY, "{cut}: {result:?}");
    if let Err(error) = result {
        assert!(error.is_outcome_unknown(), "{error:?}");
    }
    let found = direct.lookup(LookupRequest::by_key(&key)?).await?.context("held")?;
    assert!(found.expires_at.as_millis() > lock.expires_at.as_millis() + 500_000);
    assert!(eventually(|| backend.extend(extend())).await.is_extended());

    if cut > RELEASE_REPLY {
        return Ok(());
    }
    let release = || ReleaseRequest::new(lock.lock_id);
    proxy.set_reply_cut(ReplyCut::Once(cut));
    let result = backend.release(release()).await;
    assert_eq!(result.is_ok(), cut == RELEASE_REPLY, "{cut}: {result:?}");
    assert!(direct.lookup(LookupRequest::by_key(&key)?).await?.is_none());
    let again = eventually(|| backend.release(release())).await;
    assert_eq!(again, ReleaseResult::NotHeld(NotHeld::NotFound));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_paused_server_answers_within_the_bound_and_keeps_no_lock() -> Result<()> {
    let mut server = RedisServer::start()?;
    let backend = backend_with(&server, quick()).await;
    let direct = backend_with(&server, patient()).await;
    server.pause()?;
    let mut calls = JoinSet::new();
    for number in 0..20 {
        let backend = backend.clone();
        calls.spawn(async move {
            let started = Instant::now();
            let request = request(&format!("paused-{number}"), 3_600_000);
            let error = backend.acquire(request).await.unwrap_err();
            (error, started.elapsed())
        });
    }
    for (error, took) in calls.join_all().await {
        assert!(error.is_retryable(), "{error:?}");
        assert!(took < COMMAND_TIMEOUT + SLACK, "{took:?}");
    }
    tokio::time::sleep(3 * COMMAND_TIMEOUT).await;
    server.resume()?;
    // The requests to the paused server were carried out when it woke up, and are undone.
    for number in 0..20 {
        freed(&direct, &format!("paused-{number}")).await?;
    }
    assert_eq!(backend.client_state().left_to_ttl(), 0);
    Ok(())
}

#[tokio::test]
async fn a_connection_on_which_nothing_comes_back_is_replaced_once() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let (backend, key) = (through(&proxy, quick()).await?, fresh("frozen"));
    let before = proxy.counters().connections;
    proxy.freeze(true);
    for _ in 0..3 {
        assert!(backend.acquire(request(&key, 60_000)).await.unwrap_err().is_retryable());
    }
    proxy.freeze(false);
    eventually(|| backend.is_locked(IsLockedRequest::new(&key).unwrap())).await;
    freed(&backend, &key).await?;
    let opened = proxy.counters().connections - before;
    assert!((1..=10).contains(&opened), "{opened} connections in place of one");
    Ok(())
}

#[tokio::test]
async fn each_lost_connection_is_opened_again_while_another_one_works() -> Result<()> {
    let proxy = FaultProxy::start(shared().port())?;
    let backend = through(&proxy, patient().with_connections(3)).await?;
    let before = proxy.counters().connections;
    proxy.sever();
    until("all are open again", async || {
        eventually(|| backend.is_locked(IsLockedRequest::new("k").unwrap())).await;
        proxy.counters().connections - before >= 3
    })
    .await;
    Ok(())
}
