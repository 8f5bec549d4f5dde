//! Signals from each of the nodes.

use anyhow::{Context as _, Result};
use syncguard_redis::LockBackend as _;
use syncguard_redis::contract::{ReleaseRequest, SignalStatus};
use syncguard_test_services::redis::RedisCluster;
use tokio::time::timeout;

use super::connect;
use crate::redis::signals::{SOON, listeners, watch};
use crate::redis::support::{Raw, take};

#[tokio::test]
async fn releases_are_heard_from_all_nodes_over_one_connection_each() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let (holder, waiter) = (connect(&cluster).await?, connect(&cluster).await?);
    assert_eq!(waiter.signals(), SignalStatus::Unused);
    let mut watched = Vec::new();
    for number in 0..40 {
        let key = format!("k{number}");
        let lock = take(&holder, &key, 60_000).await;
        let watch = watch(&waiter, &key).await.context("a watch")?;
        watched.push((lock, watch));
    }
    for node in cluster.nodes() {
        assert_eq!(listeners(&Raw::connect(&node.url()).await).await.len(), 1);
    }
    assert_eq!(waiter.signals(), SignalStatus::Working);
    for (lock, mut watch) in watched {
        assert!(!watch.is_over());
        assert!(holder.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        timeout(SOON, watch.changed()).await.context("a signal")?;
    }
    Ok(())
}
