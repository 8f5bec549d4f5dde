//! Signals on a cluster, and over the program's own clients.

use anyhow::Result;
use fred::clients::{Client, Pool};
use fred::interfaces::ClientLike as _;
use fred::types::RespVersion;
use fred::types::config::{Config, ReconnectPolicy};
use syncguard_redis::contract::{ReleaseRequest, SignalStatus};
use syncguard_redis::{LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisCluster;
use tokio::time::timeout;

use crate::redis::signals::{SOON, hears, listeners, until, watch};
use crate::redis::support::{Raw, request, shared, take};
use crate::support::warnings::Warnings;

const MINUTE: u64 = 60_000;

#[tokio::test]
async fn on_a_cluster_the_node_with_the_slot_is_heard() -> Result<()> {
    const PREFIX: &str = "{app}";
    let cluster = RedisCluster::start(3)?;
    let options = || RedisOptions::new().with_key_prefix(PREFIX);
    let connect = async || RedisBackend::connect_with(&cluster.url(), options()).await;
    let (holder, waiting) = (connect().await?, connect().await?);
    hears(&holder, &waiting, "k").await?;
    let (owner, other, slot) = cluster.owner_and_other(PREFIX)?;
    for node in cluster.nodes() {
        let expected = usize::from(node.port() == owner.port());
        assert_eq!(listeners(&Raw::connect(&node.url()).await).await.len(), expected);
    }

    let held = take(&holder, "held", MINUTE).await;
    let mut moved = watch(&waiting, "held").await.expect("a watch");
    cluster.move_slot(slot.parse()?, owner, other)?;
    cluster.end_move(&slot, other)?;
    // The connection has left that server.
    timeout(SOON, moved.changed()).await?;
    // Until the backend has read the slot map again, the old node says that the record is elsewhere: no outage.
    let warnings = Warnings::new();
    let subscriber = tracing::subscriber::set_default(warnings.clone());
    assert!(watch(&waiting, "held").await.is_none());
    let raw = Raw::connect(&other.url()).await;
    until("it listens to the new owner", async || {
        // Like a waiter.
        let _ = waiting.acquire(request("held", MINUTE)).await;
        watch(&waiting, "held").await.is_some()
    })
    .await;
    drop(subscriber);
    assert_eq!(warnings.count(), 0);
    assert_eq!(listeners(&raw).await.len(), 1);
    let mut there = watch(&waiting, "held").await.expect("a watch");
    assert!(there.is_locked);
    assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    timeout(SOON, there.changed()).await?;
    hears(&holder, &waiting, "k").await
}

/// Signals have a connection of their own with the settings of the program's client.
#[tokio::test]
async fn over_the_programs_clients_signals_have_their_own_connection() -> Result<()> {
    let server = shared();
    let policy = || Some(ReconnectPolicy::new_constant(0, 50));
    let holder = RedisBackend::connect(&server.url()).await?;
    for (version, key) in [(RespVersion::RESP2, "own-2"), (RespVersion::RESP3, "own-3")] {
        let config = Config { version, ..Config::from_url(&server.url())? };
        let client = Client::new(config.clone(), None, None, policy());
        client.init().await?;
        let over = RedisBackend::from_client(client, RedisOptions::new())?;
        hears(&holder, &over, key).await?;
        let pool = Pool::new(config, None, None, policy(), 3)?;
        pool.init().await?;
        let over = RedisBackend::from_pool(pool, RedisOptions::new())?;
        hears(&holder, &over, key).await?;
    }
    // A client that was never connected cannot be used, and says so without waiting for ever.
    let nowhere = Config::from_url("redis://127.0.0.1:1")?;
    let over =
        RedisBackend::from_client(Client::new(nowhere, None, None, None), RedisOptions::new())?;
    assert!(timeout(SOON, watch(&over, "k")).await?.is_none());
    assert_eq!(over.signals(), SignalStatus::Failing);
    Ok(())
}
