//! Nodes that are silent, unsafe, or without their replicas.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{ErrorCode, LockBackend as _, LockId, RedisBackend, RedisOptions};
use syncguard_test_services::redis::{RedisCluster, RedisServer};
use syncguard_tests::calls::risks;

use super::{connect_with, proxies, url_of};
use crate::redis::signals::until;
use crate::redis::support::{request, take};

const MINUTE: Duration = Duration::from_secs(60);

/// A key whose lock is on a node with this prefix.
async fn key_on(backend: &RedisBackend, node: &RedisServer) -> Result<String> {
    for number in 0..500 {
        let key = format!("on-{}-{number}", node.port());
        let lock = take(backend, &key, 60_000).await;
        let names = node.cli(&["KEYS", &format!("*:{key}")])?;
        assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        if !names.is_empty() {
            return Ok(key);
        }
    }
    anyhow::bail!("no key on the node")
}

/// The connection to one node swallows everything. The other nodes answer, and a lock on the silent node is neither
/// reported as held nor as free.
#[tokio::test]
async fn nothing_is_said_to_be_nowhere_while_a_node_is_silent() -> Result<()> {
    const BOUND: Duration = Duration::from_secs(3);
    let cluster = RedisCluster::start(3)?;
    let proxies = proxies(&cluster)?;
    let options = RedisOptions::new().with_key_prefix(super::PREFIX).with_operation_timeout(BOUND);
    let backend = RedisBackend::connect_with(&url_of(&proxies), options).await?;
    let here = key_on(&backend, &cluster.nodes()[0]).await?;
    let there = key_on(&backend, &cluster.nodes()[2]).await?;
    let (ours, theirs) =
        (take(&backend, &here, 60_000).await, take(&backend, &there, 60_000).await);
    let unknown = LockId::generate()?;

    proxies[2].freeze(true);
    // A lock on another node is found there, without a wait for the silent one.
    let started = Instant::now();
    assert!(backend.lookup(LookupRequest::by_lock_id(ours.lock_id)).await?.is_some());
    assert!(backend.extend(ExtendRequest::new(ours.lock_id, MINUTE)?).await?.is_extended());
    assert!(backend.is_locked(IsLockedRequest::new(&*here)?).await?);
    assert!(started.elapsed() < BOUND, "{:?}", started.elapsed());
    for id in [unknown, theirs.lock_id] {
        let started = Instant::now();
        let errors = [
            backend.lookup(LookupRequest::by_lock_id(id)).await.map(drop).unwrap_err(),
            backend.extend(ExtendRequest::new(id, MINUTE)?).await.map(drop).unwrap_err(),
            backend.release(ReleaseRequest::new(id)).await.map(drop).unwrap_err(),
        ];
        assert!(started.elapsed() < 4 * BOUND, "{:?} for three", started.elapsed());
        for error in errors {
            let codes = [ErrorCode::NetworkTimeout, ErrorCode::ServiceUnavailable];
            assert!(codes.contains(&error.code()), "{error:?}");
        }
    }

    proxies[2].freeze(false);
    proxies[2].sever();
    until("healed", async || backend.lookup(LookupRequest::by_lock_id(unknown)).await.is_ok())
        .await;
    assert!(backend.lookup(LookupRequest::by_lock_id(unknown)).await?.is_none());
    assert!(backend.release(ReleaseRequest::new(ours.lock_id)).await?.is_released());
    Ok(())
}

/// The worst report of all masters with locks.
#[tokio::test]
async fn the_report_is_of_all_masters() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let on = |node: &RedisServer| node.cli(&["CONFIG", "SET", "appendonly", "yes"]);
    let backend = connect_with(&cluster, RedisOptions::new()).await?;
    for node in cluster.nodes() {
        assert_eq!(risks(&backend).await, ["persistence"]);
        on(node)?;
    }
    assert_eq!(risks(&backend).await, [""; 0]);
    let last = cluster.nodes().last().context("a node")?;
    last.cli(&["CONFIG", "SET", "maxmemory", "100mb"])?;
    last.cli(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"])?;
    assert_eq!(risks(&backend).await, ["eviction"]);
    let strict = RedisOptions::new().with_key_prefix(super::PREFIX).with_strict_durability(true);
    let error = RedisBackend::connect_with(&cluster.url(), strict).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
    Ok(())
}

/// Writes wait for the replica of the node with the lock.
#[tokio::test]
async fn replicas_are_waited_for_on_the_node_with_the_lock() -> Result<()> {
    let mut cluster = RedisCluster::start_with_replicas(3)?;
    let options = RedisOptions::new().with_operation_timeout(Duration::from_secs(5));
    let options = options.with_wait_replicas(1).with_wait_replicas_timeout(Duration::from_secs(2));
    let backend = connect_with(&cluster, options).await?;
    let mut keys = Vec::new();
    for node in &cluster.nodes()[..3] {
        keys.push(key_on(&backend, node).await?);
    }
    // The replica of the second master.
    cluster.nodes_mut()[4].pause()?;
    for (index, key) in keys.iter().enumerate() {
        let result = backend.acquire(request(key, 60_000)).await;
        if index == 1 {
            let error = result.map(drop).unwrap_err();
            assert!(error.message().contains("0 of 1 replicas"), "{error}");
            assert!(!backend.is_locked(IsLockedRequest::new(&**key)?).await?, "given back");
        } else {
            assert!(result?.is_acquired(), "{key}");
        }
    }
    cluster.nodes_mut()[4].resume()?;
    Ok(())
}
