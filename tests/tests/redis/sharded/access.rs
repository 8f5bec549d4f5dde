//! The access rule of a restricted user, as on the crate's page.

use anyhow::Result;
use syncguard_redis::contract::SignalStatus;
use syncguard_redis::{ErrorCode, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisCluster;

use crate::redis::signals::{listeners, watch};
use crate::redis::support::{Raw, documented, every_operation, request};

#[tokio::test]
async fn the_documented_rule_is_enough_and_opens_no_other_prefix() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    for node in cluster.nodes() {
        node.cli(&documented("For the sharded layout:"))?;
    }
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://locks:password@");
    let options = RedisOptions::new().with_key_prefix("app");
    let backend = RedisBackend::connect_with(&url, options).await?;
    let mut watches = Vec::new();
    for number in 0..30 {
        let key = format!("k{number}");
        every_operation(&backend, &key).await?;
        watches.push(watch(&backend, &key).await.expect("signals"));
    }
    for node in cluster.nodes() {
        let signals = listeners(&Raw::connect(&node.url()).await).await;
        assert_eq!(signals.len(), 1, "one connection to each node");
    }
    assert_eq!(backend.signals(), SignalStatus::Working);
    let health = backend.health().await;
    assert!(format!("{health:?}").contains("64 shards"), "{health:?}");
    assert!(!format!("{health:?}").contains("how it persists"), "{health:?}");
    let options = RedisOptions::new().with_key_prefix("other");
    let other = RedisBackend::connect_with(&url, options).await?;
    let error = other.acquire(request("k", 1000)).await.map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuthFailed, "{error}");
    Ok(())
}
