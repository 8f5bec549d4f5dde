//! Many at once: everybody gets on.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_firestore::{
    AcquisitionOptions, Backoff, FirestoreBackend, Jitter, LockBackend as _, LockConfig,
    ReleaseRequest, lock,
};
use tokio::task::JoinSet;

use crate::support::{alone, backend, fresh, request, take};

const WORKERS: usize = 16;
const TIME: Duration = Duration::from_secs(4);

/// Cycles of acquire and release for a while; how many each worker did, and the longest time that
/// passed without any.
async fn cycle(
    backend: &FirestoreBackend,
    key_of: impl Fn(usize) -> String,
) -> Result<(Vec<u32>, Duration)> {
    // The emulator's first answers take their time.
    let warm = take(backend, "warm", 60_000).await;
    assert!(backend.release(ReleaseRequest::new(warm.lock_id)).await?.is_released());
    let started = Instant::now();
    let last_turn = Arc::new(AtomicU64::new(0));
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let (backend, key, last_turn) = (backend.clone(), key_of(worker), Arc::clone(&last_turn));
        tasks.spawn(async move {
            let (mut turns, mut longest) = (0, 0);
            while started.elapsed() < TIME {
                let Some(held) = backend.acquire(request(&key, 60_000)).await?.acquired() else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let now = u64::try_from(started.elapsed().as_millis())?;
                longest = longest.max(now - last_turn.swap(now, Ordering::SeqCst).min(now));
                turns += 1;
                assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
            }
            anyhow::Ok((turns, Duration::from_millis(longest)))
        });
    }
    let results = tasks.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let longest = results.iter().map(|(_, longest)| *longest).max().unwrap_or_default();
    Ok((results.into_iter().map(|(turns, _)| turns).collect(), longest))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_on_keys_of_their_own() -> Result<()> {
    let _alone = alone().await;
    let backend = backend(&fresh()).await;
    let (turns, longest) = cycle(&backend, |worker| format!("k{worker}")).await?;
    println!(
        "{} cycles in {TIME:?}, {turns:?}, longest pause {longest:?}",
        turns.iter().sum::<u32>()
    );
    // In transactions it was 6 a second, for all of them.
    assert!(turns.iter().all(|turns| *turns >= 10), "{turns:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_on_one_key() -> Result<()> {
    let _alone = alone().await;
    let backend = backend(&fresh()).await;
    let (turns, longest) = cycle(&backend, |_| "hot".to_owned()).await?;
    println!(
        "{} cycles in {TIME:?}, {turns:?}, longest pause {longest:?}",
        turns.iter().sum::<u32>()
    );
    assert!(turns.iter().sum::<u32>() >= 40, "{turns:?}");
    assert!(longest < Duration::from_secs(2), "{longest:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_hundred_get_their_turn() -> Result<()> {
    const TASKS: u64 = 200;
    let _alone = alone().await;
    let backend = backend(&fresh()).await;
    let (inside, last) = (Arc::new(AtomicU32::new(0)), Arc::new(AtomicU64::new(0)));
    let patient = AcquisitionOptions::new()
        .with_max_retries(u32::MAX)
        .with_retry_delay(Duration::from_secs(1))
        .with_jitter(Jitter::Full)
        .with_backoff(Backoff::Fixed)
        .with_timeout(Duration::from_secs(60));
    let started = Instant::now();
    let mut tasks = JoinSet::new();
    for _ in 0..TASKS {
        let (backend, inside, last) = (backend.clone(), Arc::clone(&inside), Arc::clone(&last));
        let config = LockConfig::new("hot").with_acquisition(patient);
        tasks.spawn(async move {
            lock(&backend, config, async |held| {
                assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two at once");
                let before = last.swap(held.fence().get(), Ordering::SeqCst);
                assert!(before < held.fence().get());
                tokio::task::yield_now().await;
                inside.fetch_sub(1, Ordering::SeqCst);
            })
            .await
        });
    }
    while let Some(result) = tasks.join_next().await {
        result??;
    }
    println!("{TASKS} turns in {:?}", started.elapsed());
    assert_eq!(last.load(Ordering::SeqCst), TASKS, "one fence each");
    Ok(())
}
