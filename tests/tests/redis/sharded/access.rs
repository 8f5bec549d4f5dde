//! The access rule of a restricted user, as on the crate's page.

use anyhow::{Context as _, Result};
use syncguard_redis::contract::SignalStatus;
use syncguard_redis::{ErrorCode, KeyLayout, LockBackend as _, RedisBackend, RedisOptions};
use syncguard_test_services::redis::RedisCluster;

use crate::redis::signals::watch;
use crate::redis::support::{every_operation, request};

/// The documented rule, one word in each line.
fn documented() -> Result<Vec<&'static str>> {
    let page = include_str!("../../../../crates/syncguard-redis/src/guide.md");
    let (_, rest) = page.split_once("For the sharded layout:").context("a rule")?;
    let (_, rest) = rest.split_once("```text").context("a rule")?;
    let (rule, _) = rest.split_once("```").context("a rule")?;
    let words = rule.lines().flat_map(|line| line.trim_start_matches("//!").split_whitespace());
    Ok(words.collect())
}

#[tokio::test]
async fn the_documented_rule_is_enough_and_opens_no_other_prefix() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    for node in cluster.nodes() {
        node.cli(&documented()?)?;
    }
    let url = cluster.url().replace("redis-cluster://", "redis-cluster://locks:password@");
    let options = RedisOptions::new().with_key_prefix("app");
    let backend = RedisBackend::connect_with(&url, options).await?;
    for number in 0..30 {
        let key = format!("k{number}");
        every_operation(&backend, &key).await?;
        assert!(watch(&backend, &key).await.is_some(), "signals");
    }
    assert_eq!(backend.signals(), SignalStatus::Working);
    let report = backend.durability_report().await?;
    assert_eq!(report.layout, KeyLayout::Sharded { shards: 64 });
    assert!(!format!("{report:?}").contains("Unverified"), "{report:?}");
    let options = RedisOptions::new().with_key_prefix("other");
    let other = RedisBackend::connect_with(&url, options).await?;
    let error = other.acquire(request("k", 1000)).await.map(drop).unwrap_err();
    assert_eq!(error.code(), ErrorCode::AuthFailed, "{error}");
    Ok(())
}
