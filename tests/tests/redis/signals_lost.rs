//! Signals that fail: waiters poll, and signals come back by themselves.

use std::thread;
use std::time::Duration;

use anyhow::Result;
use syncguard_redis::contract::{ReleaseRequest, SignalStatus};
use syncguard_redis::{
    AcquisitionOptions, Jitter, LockBackend as _, LockConfig, RedisBackend, RedisOptions, lock,
};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisServer;
use tokio::runtime::Builder;
use tokio::time::timeout;

use crate::redis::signals::{SOON, hears, listeners, number, until, watch, watched};
use crate::redis::support::{Raw, alone, backend, patient, take};
use crate::support::warnings::Warnings;

const MINUTE: u64 = 60_000;

/// A waiter that polls, like all waiters.
async fn waits_in_vain_for(backend: &RedisBackend, key: &str, time: Duration) {
    let config = LockConfig::new(key).with_ttl(Duration::from_secs(60));
    let waiting = lock(backend, config, async |_| ());
    assert!(timeout(time, waiting).await.is_err(), "somebody else has it");
}

async fn works_again(holder: &RedisBackend, waiting: &RedisBackend) -> Result<()> {
    until("it works again", async || watch(waiting, "other").await.is_some()).await;
    assert_eq!(waiting.signals(), SignalStatus::Working);
    hears(holder, waiting, "again").await
}

#[tokio::test]
async fn a_killed_connection_ends_every_watch_and_is_replaced() -> Result<()> {
    let warnings = Warnings::new();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let held = take(&holder, "k", MINUTE).await;
    let before = warnings.count();
    let waiter = tokio::spawn({
        let waiting = waiting.clone();
        async move { lock(&waiting, LockConfig::new("k"), async |_| ()).await }
    });
    for round in 0..2 {
        until("it listens", async || listeners(&raw).await.len() == 1).await;
        let mut all = Vec::new();
        for key in ["k", "a", "b"] {
            all.push(watch(&waiting, key).await.expect("a watch"));
        }
        for id in listeners(&raw).await {
            assert_eq!(raw.number("CLIENT", &["KILL", "ID", &id]).await, 1);
        }
        for watch in &mut all {
            timeout(SOON, watch.changed()).await?;
            assert!(watch.is_over(), "{round}");
        }
    }
    until("it listens", async || listeners(&raw).await.len() == 1).await;
    until("it works", async || waiting.signals() == SignalStatus::Working).await;
    assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    timeout(SOON, waiter).await???;
    works_again(&holder, &waiting).await?;
    assert_eq!(
        warnings.count() - before,
        1,
        "a connection must prove good before its loss is news"
    );
    Ok(())
}

/// The connection stalls without an error, or is cut and no other is taken.
#[tokio::test]
async fn a_connection_that_stalls_or_ends_for_a_while_is_replaced() -> Result<()> {
    const LIMIT: Duration = Duration::from_secs(3);
    let server = RedisServer::start()?;
    let holder = backend(&server).await;
    for stalls in [true, false] {
        let warnings = Warnings::new();
        let _here = tracing::subscriber::set_default(warnings.clone());
        let proxy = FaultProxy::start(server.port())?;
        let url = format!("redis://127.0.0.1:{}", proxy.port());
        let options = patient().with_operation_timeout(LIMIT);
        let waiting = RedisBackend::connect_with(&url, options).await?;
        let held = take(&holder, "k", MINUTE).await;
        let mut lost = watch(&waiting, "k").await.expect("a watch");
        let before = warnings.count();
        if stalls {
            proxy.freeze(true);
        } else {
            proxy.refuse();
            proxy.sever();
        }
        timeout(SOON, lost.changed()).await?;
        assert!(lost.is_over());
        // A lost connection of commands, which signals follow, has a line of its own.
        let told = if stalls { 1 } else { 2 };
        let failing = async || {
            assert!(watch(&waiting, "k").await.is_none());
            waiting.signals() == SignalStatus::Failing && warnings.count() - before == told
        };
        until("it is failing, and has said so", failing).await;
        if stalls {
            proxy.freeze(false);
            proxy.sever();
        } else {
            proxy.accept()?;
        }
        works_again(&holder, &waiting).await?;
        assert_eq!(warnings.count() - before, told);
        assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    }
    Ok(())
}

/// An older server, a proxy or access rules may refuse a watch. The tests of the core show how often it is tried.
#[tokio::test]
async fn waiters_go_on_at_a_server_that_refuses() -> Result<()> {
    for refused in
        ["rename-command HELLO \"\"", "user default on nopass ~* &* +@all -client|tracking"]
    {
        let warnings = Warnings::new();
        let _here = tracing::subscriber::set_default(warnings.clone());
        let server = RedisServer::builder().config(refused).start()?;
        let raw = Raw::connect(&server.url()).await;
        let (holder, waiting) = (backend(&server).await, backend(&server).await);
        let held = take(&holder, "k", MINUTE).await;
        let said = warnings.count();
        until("it is failing", async || {
            assert!(watch(&waiting, "k").await.is_none());
            waiting.signals() == SignalStatus::Failing
        })
        .await;
        let clients = async || number(&raw, "clients", "connected_clients").await;
        until("the refused one is closed", async || clients().await == 3).await;
        waits_in_vain_for(&waiting, "k", Duration::from_millis(300)).await;
        assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
        lock(&waiting, LockConfig::new("k"), async |_| ()).await?;
        if refused.starts_with("user") {
            raw.send("ACL", &["SETUSER", "default", "+client|tracking"]).await;
            works_again(&holder, &waiting).await?;
        }
        assert_eq!(warnings.count() - said, 1);
    }
    Ok(())
}

async fn over_a_client(server: &RedisServer) -> Result<RedisBackend> {
    Ok(RedisBackend::from_client(Raw::connect(&server.url()).await.0, RedisOptions::new())?)
}

/// The connection lives in the runtime of the first waiter, and the next waiter opens another.
#[tokio::test]
async fn a_runtime_that_ends_takes_its_connection_with_it() -> Result<()> {
    let warnings = Warnings::new();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let (holder, waiting) = (backend(&server).await, over_a_client(&server).await?);
    let said = warnings.count();
    let there = waiting.clone();
    let mut lost = thread::spawn(move || {
        let runtime = Builder::new_current_thread().enable_all().build().expect("a runtime");
        runtime.block_on(watch(&there, "k")).expect("a watch")
    })
    .join()
    .expect("a thread");
    timeout(SOON, lost.changed()).await?;
    assert!(lost.is_over());
    until("it is closed", async || listeners(&raw).await.is_empty()).await;
    hears(&holder, &waiting, "k").await?;
    assert_eq!(warnings.count(), said);
    Ok(())
}

/// Redis forgets who watches what when any of its databases is flushed, and tells the clients in a way that fred drops.
#[tokio::test]
async fn a_flush_of_another_database_deafens_no_waiter_for_long() -> Result<()> {
    const HOUR: Duration = Duration::from_secs(3600);
    let _alone = alone().await;
    let server = RedisServer::start()?;
    let raw = Raw::connect(&server.url()).await;
    let other = Raw::connect(&format!("{}/1", server.url())).await;
    let (holder, waiting) = (backend(&server).await, backend(&server).await);
    let held = take(&holder, "k", MINUTE).await;
    // The first poll comes when the watch is five seconds old.
    let options = AcquisitionOptions::new()
        .with_retry_delay(Duration::from_millis(5_100))
        .with_jitter(Jitter::None)
        .with_max_retry_delay(HOUR)
        .with_timeout(HOUR);
    let config = LockConfig::new("k").with_ttl(HOUR).with_acquisition(options);
    let waiter = tokio::spawn(async move { lock(&waiting, config, async |_| ()).await });
    until("the waiter listens", async || watched(&raw).await == 1).await;
    assert_eq!(other.text("FLUSHDB", &[]).await.as_deref(), Some("OK"));
    assert_eq!(watched(&raw).await, 0, "the server has forgotten the watch");
    until("the waiter listens again", async || watched(&raw).await == 1).await;
    assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    waiter.await??;
    Ok(())
}
