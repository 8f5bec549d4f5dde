//! Signals from each of the nodes.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_redis::LockBackend as _;
use syncguard_redis::contract::{ReleaseRequest, SignalStatus, WatchRequest};
use syncguard_test_services::redis::RedisCluster;
use tokio::time::timeout;

use super::connect;
use crate::redis::support::take;

/// The number of a node's connections that listen for changes.
fn listeners(cluster: &RedisCluster) -> Result<Vec<usize>> {
    let count = |list: String| {
        let flags = |line: &str| {
            line.split(' ').find_map(|word| Some(word.strip_prefix("flags=")?.contains('t')))
        };
        list.lines().filter(|line| flags(line) == Some(true)).count()
    };
    cluster.nodes().iter().map(|node| Ok(count(node.cli(&["CLIENT", "LIST"])?))).collect()
}

#[tokio::test]
async fn releases_are_heard_from_all_nodes_over_one_connection_each() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let (holder, waiter) = (connect(&cluster).await?, connect(&cluster).await?);
    assert_eq!(waiter.signals(), SignalStatus::Unused);
    let mut watched = Vec::new();
    for number in 0..40 {
        let key = format!("k{number}");
        let lock = take(&holder, &key, 60_000).await;
        let watch = waiter.watch(WatchRequest::new(key.parse()?)).await.context("a watch")?;
        watched.push((lock, watch));
    }
    assert_eq!(listeners(&cluster)?, [1, 1, 1]);
    assert_eq!(waiter.signals(), SignalStatus::Working);
    for (lock, mut watch) in watched {
        assert!(!watch.is_over());
        assert!(holder.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
        timeout(Duration::from_secs(5), watch.changed()).await.context("a signal")?;
    }
    Ok(())
}
