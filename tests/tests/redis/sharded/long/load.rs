//! The distribution of the work.

use anyhow::Result;
use syncguard_history::Random;
use syncguard_redis::LockBackend as _;
use syncguard_redis::contract::ReleaseRequest;
use syncguard_test_services::redis::RedisCluster;
use tokio::task::JoinSet;

use crate::redis::sharded::{connect, each, reset};
use crate::redis::support::take;

/// With an even distribution of slots, as `redis-cli --cluster create` makes it.
#[tokio::test]
async fn ten_thousand_keys_are_spread_over_three_masters() -> Result<()> {
    let cluster = RedisCluster::start(3)?;
    let backend = connect(&cluster).await?;
    let _ = take(&backend, "warm", 1000).await;
    reset(&cluster)?;
    let mut random = Random::new(Random::seed());
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let keys: Vec<String> = (0..500).map(|_| format!("{:x}", random.number())).collect();
        let backend = backend.clone();
        tasks.spawn(async move {
            for key in keys {
                let lock = take(&backend, &key, 60_000).await;
                let release = ReleaseRequest::new(lock.lock_id);
                let release = release.with_key_hint(key.parse().expect("a key"));
                assert!(backend.release(release).await.expect("an answer").is_released());
            }
        });
    }
    tasks.join_all().await;
    let by_hash = each(&cluster, "commandstats", "cmdstat_evalsha:calls=")?;
    let all: f64 = by_hash.iter().sum();
    assert!(all >= 20_000.0, "{by_hash:?}");
    let shares: Vec<f64> = by_hash.iter().map(|calls| calls / all * 100.0).collect();
    assert!(shares.iter().all(|share| (28.0..=39.0).contains(share)), "{shares:?} %");
    Ok(())
}
