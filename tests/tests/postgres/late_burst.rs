//! Very many locks that are given up at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_postgres::contract::ReleaseRequest;
use syncguard_postgres::{LockBackend as _, LockConfig, LockError, try_acquire};
use syncguard_test_effort::either;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::postgres::support::{Tables, connect, settles, shared, take};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_burst_of_dropped_guards_leaves_the_store_to_those_who_wait_for_it() -> Result<()> {
    let count = either(1_000, 5_000);
    let tables = Tables::fresh();
    let backend = tables.backend(10).await;
    let mut takers = JoinSet::new();
    for taker in 0..50 {
        let backend = backend.clone();
        takers.spawn(async move {
            let mut guards = Vec::new();
            for number in 0..count / 50 {
                let config = LockConfig::new(format!("{taker}-{number}"));
                let config = config.with_ttl(Duration::from_secs(3600));
                guards.push(try_acquire(&backend, config).await?.acquired().expect("free"));
            }
            Ok::<_, LockError>(guards)
        });
    }
    let mut guards = Vec::new();
    while let Some(taken) = takers.join_next().await {
        guards.extend(taken??);
    }
    assert_eq!(guards.len(), count / 50 * 50);

    let dropped = Instant::now();
    drop(guards);
    let dropping = dropped.elapsed();
    let asked = Instant::now();
    let fresh = take(&backend, "fresh").await;
    let served = asked.elapsed();
    let clean_up = backend.client_state().clean_up();
    let left = clean_up.waiting();
    while clean_up.waiting() > 0 {
        assert!(dropped.elapsed() < Duration::from_secs(300));
        sleep(Duration::from_millis(10)).await;
    }
    println!(
        "{count} guards dropped in {dropping:?}; the next acquire took {served:?} with {left} left; all \
         were released after {:?}",
        dropped.elapsed()
    );
    assert!(served < Duration::from_secs(1), "{served:?}");
    assert_eq!(clean_up.left_to_ttl(), 0);
    let _ = backend.release(ReleaseRequest::new(fresh.lock_id)).await?;
    settles(&connect(&shared().url()).await, &tables).await
}
