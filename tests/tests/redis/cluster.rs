//! A cluster of masters: one slot for all records, and moves of this slot.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard_redis::{ErrorCode, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisCluster;

use crate::redis::support::{every_operation, request, take};

const PREFIX: &str = "{app}";

async fn connect(cluster: &RedisCluster) -> Result<RedisBackend> {
    let options = RedisOptions::new().with_key_prefix(PREFIX);
    Ok(RedisBackend::connect_with(&cluster.url(), options).await?)
}

#[tokio::test]
async fn locks_follow_their_slot_from_node_to_node() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let backend = connect(&cluster).await?;
    every_operation(&backend, "before").await?;
    assert!(format!("{backend:?}").contains("OneServer"), "{backend:?}");
    let held = take(&backend, "held", 60_000).await;
    let (owner, other, slot) = cluster.owner_and_other(PREFIX)?;
    cluster.begin_move(&slot, owner, other)?;
    // Remaining names are served here. For new names there is ASK, which fred cannot follow.
    for _ in 0..3 {
        assert!(backend.is_locked(IsLockedRequest::new("held")?).await?);
        let error = backend.acquire(request("during", 60_000)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
        assert!(!error.is_outcome_unknown(), "{error:?}");
    }

    cluster.move_slot(slot.parse()?, owner, other)?;
    cluster.end_move(&slot, other)?;
    // Through one MOVED.
    let again = backend.acquire(request("held", 60_000)).await?;
    assert!(!again.is_acquired());
    let extend = ExtendRequest::new(held.lock_id, Duration::from_secs(60))?;
    assert!(backend.extend(extend).await?.is_extended());
    assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    assert_eq!(take(&backend, "held", 60_000).await.fence.get(), 2);
    every_operation(&backend, "after").await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_node_is_an_error_and_its_return_is_noticed() -> Result<()> {
    let mut cluster = RedisCluster::start(3)?;
    let backend = connect(&cluster).await?;
    every_operation(&backend, "before").await?;
    let port = cluster.owner_and_other(PREFIX)?.0.port();
    let index = cluster.nodes().iter().position(|node| node.port() == port).unwrap();
    cluster.nodes_mut()[index].kill()?;
    for attempt in 0..10 {
        let started = Instant::now();
        let error = backend.acquire(request("gone", 1000)).await.unwrap_err();
        assert!(error.is_retryable(), "{attempt}: {error:?}");
        assert!(started.elapsed() < Duration::from_secs(60), "{:?}", started.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    cluster.nodes_mut()[index].restart()?;
    cluster.wait_until_ok()?;
    let healed = Instant::now();
    while backend.is_locked(IsLockedRequest::new("k")?).await.is_err() {
        assert!(healed.elapsed() < Duration::from_secs(60));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    every_operation(&backend, "after").await?;
    Ok(())
}
