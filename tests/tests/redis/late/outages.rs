//! A store that is away, hangs, or gets many requests at once.

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_redis::{
    AcquisitionOptions, ErrorCode, LockBackend as _, LockConfig, TryAcquired, acquire, try_acquire,
};
use syncguard_test_effort::either;
use tokio::task::JoinSet;

use super::{Line, cleaned_up, soon};
use crate::redis::support::{request, take};

#[tokio::test]
async fn what_was_released_while_the_store_was_away_is_free_soon_after() -> Result<()> {
    const AWAY: Duration = Duration::from_millis(1200);
    let line = Line::start().await?;
    let backend = line.backend(1, 300).await?;
    let taken = async |key: &str| {
        let config = LockConfig::new(key.to_owned()).with_ttl(Duration::from_secs(3600));
        loop {
            // On a busy machine the limit may be too small. An attempt without an answer is undone soon after.
            let tried = try_acquire(&backend, config.clone()).await;
            if let Some(guard) = tried.ok().and_then(TryAcquired::acquired) {
                break guard;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let (dropped, released) = (taken("dropped").await, taken("released").await);
    cleaned_up(&backend).await;
    line.proxy.refuse();
    line.proxy.sever();
    let left = Instant::now();
    drop(dropped);
    let error = released.release().await.unwrap_err();
    assert!(error.is_retryable(), "{error:?}");
    tokio::time::sleep(AWAY.saturating_sub(left.elapsed())).await;
    line.proxy.accept()?;
    for key in ["dropped", "released"] {
        soon("a free key", || async { line.expiry(key).await.is_none() }).await;
    }
    Ok(())
}

#[tokio::test]
async fn a_store_that_hangs_is_not_taken_for_somebody_elses_lock() -> Result<()> {
    let line = Line::start().await?;
    // Longer than the limit of the acquisition.
    let backend = line.backend(1, 20_000).await?;
    let _ = take(&line.direct, "held", 600_000).await;
    // Long enough until the store hangs: an earlier end would be somebody else's lock.
    let options = AcquisitionOptions::new().with_timeout(Duration::from_secs(5));
    let mut callers = JoinSet::new();
    let mut call = |key: String| {
        let backend = backend.clone();
        let config = LockConfig::new(key).with_acquisition(options);
        callers.spawn(async move { acquire(&backend, config).await.map(drop).unwrap_err() });
    };
    // The head has learned that the lock is held before the store hangs, and the other waiters from its queue.
    let asked = line.raw.calls("evalsha").await;
    (0..10).for_each(|_| call("held".to_owned()));
    soon("contention", || async { line.raw.calls("evalsha").await > asked }).await;
    tokio::time::sleep(Duration::from_millis(20)).await;
    line.proxy.freeze(true);
    (0..10).for_each(|number| call(format!("free-{number}")));
    while let Some(error) = callers.join_next().await {
        let code = error?.code();
        let says_so = matches!(code, ErrorCode::NetworkTimeout | ErrorCode::ServiceUnavailable);
        assert!(says_so, "{code:?}");
    }
    line.proxy.freeze(false);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_burst_of_dropped_guards_leaves_the_store_to_those_who_wait_for_it() -> Result<()> {
    let count = either(4_000, 20_000);
    let line = Line::start().await?;
    let backend = &line.direct;
    let mut takers = JoinSet::new();
    for taker in 0..100 {
        let backend = backend.clone();
        takers.spawn(async move {
            let mut guards = Vec::new();
            for number in 0..count / 100 {
                let config = LockConfig::new(format!("{taker}-{number}"));
                let config = config.with_ttl(Duration::from_secs(3600));
                guards.push(try_acquire(&backend, config).await?.acquired().expect("free"));
            }
            Ok::<_, syncguard_redis::LockError>(guards)
        });
    }
    let mut guards = Vec::new();
    while let Some(taken) = takers.join_next().await {
        guards.extend(taken??);
    }
    let dropped = Instant::now();
    drop(guards);
    let dropping = dropped.elapsed();
    let asked = Instant::now();
    assert!(backend.acquire(request("fresh", 1000)).await?.is_acquired());
    let served = asked.elapsed();
    let left = backend.client_state().clean_up().waiting();
    while backend.client_state().clean_up().waiting() > 0 {
        assert!(dropped.elapsed() < Duration::from_secs(300));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    println!(
        "{count} guards dropped in {dropping:?}; the next acquire took {served:?} with {left} left; all \
         were released after {:?}",
        dropped.elapsed()
    );
    // On a slow machine, the acquire still comes before most of the releases.
    assert!(served < Duration::from_secs(1) || left > count / 2, "{served:?}, {left} left");
    assert_eq!(backend.client_state().clean_up().left_to_ttl(), 0);
    cleaned_up(backend).await;
    let names = line.raw.names("syncguard:id:").await;
    assert!(names.len() <= 1, "{} locks are left", names.len());
    Ok(())
}
