//! The requests of operations, their nodes, and the stored records.

use std::time::Duration;

use anyhow::Result;
use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ConnectionConfig, ReconnectPolicy};
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::inventory::ListRequest;
use syncguard_redis::{
    ErrorCode, Key, LockBackend as _, LockError, LockId, NotHeld, RedisBackend, RedisOptions,
    ReleaseResult, acquire,
};
use syncguard_test_services::redis::RedisCluster;
use syncguard_tests::calls::all_at_once;
use syncguard_tests::inventory::inventory;

use super::{connect, proxies, reset, scripts, url_of};
use crate::redis::support::{Raw, every_operation, patient, request, take};

const MINUTE: Duration = Duration::from_secs(60);

/// Every operation, with the number of its scripts.
#[tokio::test]
async fn one_script_with_the_key_and_one_for_each_shard_without() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let (backend, other) = (connect(&cluster).await?, connect(&cluster).await?);
    assert!(format!("{backend:?}").contains("Sharded { shards: 64 }"), "{backend:?}");
    let (key, wrong) = (Key::new("k")?, Key::new("nobody")?);
    // Each node needs the full script the first time. A search ends with the first hit while other nodes may still
    // ask for the script, so the first search is for a missing lock.
    let nobody = LockId::generate()?;
    assert!(!other.is_locked(IsLockedRequest::new("k")?).await?);
    assert!(other.lookup(LookupRequest::by_lock_id(nobody)).await?.is_none());
    assert!(!other.extend(ExtendRequest::new(nobody, MINUTE)?).await?.is_extended());
    assert!(!other.release(ReleaseRequest::new(nobody)).await?.is_released());
    for hint in [None, Some(&key), Some(&wrong)] {
        let at_most = match hint {
            Some(hint) if *hint == key => 1,
            Some(_) | None => 64,
        };
        let lock = take(&backend, "k", 60_000).await;
        let mut lookup = LookupRequest::by_lock_id(lock.lock_id);
        let mut extend = ExtendRequest::new(lock.lock_id, MINUTE)?;
        let mut release = ReleaseRequest::new(lock.lock_id);
        lookup.key_hint = hint.cloned();
        extend.key_hint = hint.cloned();
        release.key_hint = hint.cloned();
        let mut costs = Vec::new();
        reset(&cluster)?;
        assert!(other.is_locked(IsLockedRequest::new("k")?).await?);
        costs.push((cost(&cluster, &other).await?, 1));
        assert!(!other.acquire(request("k", 1000)).await?.is_acquired());
        costs.push((cost(&cluster, &other).await?, 1));
        assert!(other.lookup(lookup).await?.is_some());
        costs.push((cost(&cluster, &other).await?, at_most));
        assert!(other.extend(extend).await?.is_extended());
        costs.push((cost(&cluster, &other).await?, at_most));
        assert!(other.release(release.clone()).await?.is_released());
        costs.push((cost(&cluster, &other).await?, at_most));
        let again = other.release(release).await?;
        assert_eq!(again, ReleaseResult::NotHeld(NotHeld::NotFound));
        costs.push((cost(&cluster, &other).await?, 64));
        assert!(costs.iter().all(|(cost, most)| cost <= most), "{hint:?}: {costs:?}");
        assert_eq!(costs.last(), Some(&(64, 64)), "nowhere is everywhere");
    }
    let mut guard = acquire(&other, "guarded").await?;
    reset(&cluster)?;
    assert!(guard.extend(MINUTE).await?.is_extended());
    assert!(guard.release().await?.is_released());
    assert!(cost(&cluster, &other).await? <= 2, "a guard knows its key");
    Ok(())
}

/// The number of scripts of the last operation.
///
/// A search ends with the first hit while other nodes may still have its scripts in their queues. A lookup of a
/// missing lock comes after those scripts on each connection, and takes 64 itself.
async fn cost(cluster: &RedisCluster, backend: &RedisBackend) -> Result<u64> {
    let nobody = LookupRequest::by_lock_id(LockId::generate()?);
    assert!(backend.lookup(nobody).await?.is_none());
    let sent = scripts(cluster)?;
    reset(cluster)?;
    Ok(sent - 64)
}

/// Answers are so late that all requests were sent before the first one.
#[tokio::test]
async fn what_asks_everywhere_takes_one_round_trip() -> Result<()> {
    const WAY: Duration = Duration::from_secs(1);
    let cluster = RedisCluster::start(3)?;
    let proxies = proxies(&cluster)?;
    let options = patient().with_key_prefix(super::PREFIX);
    let backend = RedisBackend::connect_with(&url_of(&proxies), options).await?;
    for number in 0..50 {
        every_operation(&backend, &format!("warm-{number}")).await?;
    }
    let lock = take(&backend, "k", 60_000).await;
    // No node owes an answer any more: an id that no lock has is not said to be unknown before all have answered.
    let _ = backend.release(ReleaseRequest::new(LockId::generate()?)).await?;
    for proxy in &proxies {
        proxy.set_latency(WAY, WAY);
    }
    let flights = || proxies.iter().map(|proxy| proxy.counters().flights);
    for id in [LockId::generate()?, lock.lock_id] {
        let before: Vec<u64> = flights().collect();
        let _ = backend.release(ReleaseRequest::new(id)).await?;
        let round_trips: Vec<u64> =
            flights().zip(before).map(|(now, before)| now - before).collect();
        assert_eq!(round_trips, [1, 1, 1]);
    }
    Ok(())
}

#[tokio::test]
async fn what_is_stored_is_what_the_documentation_says() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let backend = connect(&cluster).await?;
    let raw = Raw::connect(&cluster.url()).await;
    // As in the vectors: `printf %s app:job:1 | sha256sum` begins with the byte that is 28 modulo 64.
    let lock = take(&backend, "job:1", 60_000).await;
    let mut names = Vec::new();
    for node in cluster.nodes() {
        names.extend(node.cli(&["KEYS", "*"])?.lines().map(str::to_owned));
    }
    names.retain(|name| !name.is_empty());
    names.sort();
    let shard =
        names[0].strip_prefix("{app:").and_then(|rest| rest.split_once('}')).expect("a shard").0;
    let vectors = include_str!("../../../../crates/syncguard-redis/tests/fixtures/shards.tsv");
    let vector = vectors.lines().find(|line| line.starts_with("app\tjob:1\t")).expect("a vector");
    assert_eq!(vector.split('\t').nth(2), Some(shard.trim_start_matches('0')), "{names:?}");
    let section = format!("{{app:{shard}}}");
    let lock_name = format!("{section}:job:1");
    let index = format!("{section}:id:{}", lock.lock_id.expose());
    let mut expected = [lock_name.clone(), format!("{section}:fence:{lock_name}"), index.clone()];
    expected.sort();
    assert_eq!(names, expected);
    assert_eq!(raw.text("GET", &[&index]).await, Some(lock_name));
    Ok(())
}

#[tokio::test]
async fn clients_that_cannot_reach_all_shards_are_refused() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let url = cluster.nodes()[0].url();
    let refused = |error: LockError, says: &str| {
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        assert!(error.message().contains(says), "{error}");
    };
    let options = |prefix| RedisOptions::new().with_key_prefix(prefix);
    // One node alone: no answer may say that the lock does not exist.
    let error = RedisBackend::connect_with(&url, options(super::PREFIX)).await.unwrap_err();
    refused(error, "redis-cluster://");
    let client = Raw::connect(&url).await.0;
    let backend = RedisBackend::from_client(client, options(super::PREFIX))?;
    for number in 0..8 {
        for result in all_at_once(&backend, &format!("k{number}"), LockId::generate()?).await {
            refused(result.unwrap_err(), "");
        }
    }
    let inventory = inventory(&backend);
    refused(inventory.list_locks(ListRequest::new()).await.map(drop).unwrap_err(), "64 shards");
    refused(inventory.fence_counter("k").await.map(drop).unwrap_err(), "64 shards");

    // A prefix with a brace and no tag.
    let client = Raw::connect(&cluster.url()).await.0;
    for prefix in ["{}", "{app", "app}"] {
        let connected = RedisBackend::connect_with(&cluster.url(), options(prefix)).await;
        refused(connected.unwrap_err(), "hash tag");
        let wrapped = RedisBackend::from_client(client.clone(), options(prefix));
        refused(wrapped.unwrap_err(), "hash tag");
    }

    // fred mixes up answers when it follows a redirection.
    let client = |redirections| {
        let connection =
            ConnectionConfig { max_redirections: redirections, ..ConnectionConfig::default() };
        let policy = ReconnectPolicy::new_constant(0, 50);
        let config = Config::from_url(&cluster.url()).expect("a URL");
        Client::new(config, None, Some(connection), Some(policy))
    };
    let error = RedisBackend::from_client(client(1), options("app")).unwrap_err();
    refused(error, "max_redirections");
    assert!(RedisBackend::from_client(client(1), options("{app}")).is_ok());
    let client = client(0);
    client.init().await?;
    every_operation(&RedisBackend::from_client(client, options("app"))?, "k").await?;
    Ok(())
}
