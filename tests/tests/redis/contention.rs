//! Very many waiters for one key.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use fred::clients::Pool;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ReconnectPolicy};
use syncguard_redis::{
    AcquisitionOptions, Backoff, ErrorCode, Jitter, LockConfig, RedisBackend, RedisOptions, lock,
};
use syncguard_test_effort::either;
use syncguard_test_services::redis::RedisServer;
use tokio::task::JoinSet;

use crate::redis::support::alone;

async fn over_a_pool_of_4(server: &RedisServer) -> Result<RedisBackend> {
    let policy = ReconnectPolicy::new_constant(0, 50);
    let pool = Pool::new(Config::from_url(&server.url())?, None, None, Some(policy), 4)?;
    pool.init().await?;
    // Without optimisations and beside other tests, thousands of concurrent attempts are slow.
    let options = RedisOptions::new().with_command_timeout(Duration::from_secs(10));
    Ok(RedisBackend::from_pool(pool, options)?)
}

#[tokio::test(flavor = "multi_thread")]
async fn thousands_get_their_turn() -> Result<()> {
    let _alone = alone().await;
    let count = either(2_000, 10_000);
    let server = RedisServer::start()?;
    let backend = over_a_pool_of_4(&server).await?;
    let (inside, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    // Each waiter makes an attempt a second.
    let patient = AcquisitionOptions::new()
        .with_max_retries(u32::MAX)
        .with_retry_delay(Duration::from_secs(2))
        .with_jitter(Jitter::Full)
        .with_backoff(Backoff::Fixed)
        .with_timeout(Duration::from_secs(1200));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..count {
        let (backend, inside, last) = (backend.clone(), Arc::clone(&inside), Arc::clone(&last));
        let config = LockConfig::new("hot").with_acquisition(patient);
        tasks.spawn(async move {
            lock(&backend, config, async |held| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                let before = last.swap(held.fence().get(), Ordering::SeqCst);
                assert!(before < held.fence().get());
                inside.fetch_sub(1, Ordering::SeqCst);
            })
            .await
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    println!("{count} turns in {:?}", started.elapsed());
    assert_eq!(last.load(Ordering::SeqCst), count, "one fence each");
    assert!(started.elapsed() < Duration::from_secs(1200));
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_starves_is_told_in_time() -> Result<()> {
    let _alone = alone().await;
    let server = RedisServer::start()?;
    let backend = over_a_pool_of_4(&server).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..500 {
        let backend = backend.clone();
        tasks.spawn(async move {
            let options = AcquisitionOptions::new()
                .with_max_retries(1000)
                .with_retry_delay(Duration::from_millis(20))
                .with_timeout(Duration::from_millis(800));
            let started = Instant::now();
            let config = LockConfig::new("hot").with_acquisition(options);
            let result = lock(&backend, config, async |_| {
                tokio::time::sleep(Duration::from_millis(10)).await;
            });
            let result = result.await;
            (result, started.elapsed())
        });
    }
    let (mut done, mut starved) = (0, 0);
    while let Some(result) = tasks.join_next().await {
        match result? {
            (Ok(()), _) => done += 1,
            (Err(error), took) => {
                // On a slow machine the limit can end before the store answers the last attempt.
                match error.code() {
                    ErrorCode::AcquisitionTimeout => starved += 1,
                    ErrorCode::NetworkTimeout => {}
                    code => panic!("{code:?}"),
                }
                assert!(took < Duration::from_secs(20), "{took:?}");
            }
        }
    }
    assert!(done > 0 && starved > 0, "{done} done, {starved} starved");
    Ok(())
}
