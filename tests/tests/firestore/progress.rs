//! Many concurrent clients all make progress.

#![allow(clippy::print_stdout, reason = "rates for a human eye")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_firestore::contract::ReleaseRequest;
use syncguard_firestore::{
    AcquisitionOptions, Backoff, FirestoreBackend, FirestoreOptions, Jitter, LockBackend as _,
    LockConfig, lock,
};
use tokio::task::JoinSet;

use crate::firestore::support::{alone, backend, backend_with, fresh, options, request};

const WORKERS: usize = 16;

/// The shortest and the longest time of the work.
const TIME: Duration = Duration::from_secs(2);
const LIMIT: Duration = Duration::from_secs(300);

/// Cycles of acquire and release until every client had this many turns.
async fn cycle(
    backend: &FirestoreBackend,
    turns_each: u32,
    key_of: impl Fn(usize) -> String,
) -> Result<Progress> {
    let started = Instant::now();
    let last_turn = Arc::new(AtomicU64::new(0));
    let content = Arc::new(AtomicUsize::new(0));
    let mut tasks = JoinSet::new();
    for worker in 0..WORKERS {
        let (backend, key, last_turn) = (backend.clone(), key_of(worker), Arc::clone(&last_turn));
        let content = Arc::clone(&content);
        tasks.spawn(async move {
            let (mut turns, mut longest) = (0, 0);
            while started.elapsed() < TIME || content.load(Ordering::SeqCst) < WORKERS {
                ensure!(started.elapsed() < LIMIT, "{turns} turns of one worker in {LIMIT:?}");
                let Some(held) = backend.acquire(request(&key, 60_000)).await?.acquired() else {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                    continue;
                };
                let now = u64::try_from(started.elapsed().as_millis())?;
                longest = longest.max(now - last_turn.swap(now, Ordering::SeqCst).min(now));
                turns += 1;
                if turns == turns_each {
                    content.fetch_add(1, Ordering::SeqCst);
                }
                assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
            }
            anyhow::Ok((turns, longest))
        });
    }
    let workers = tasks.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    let (turns, pauses): (Vec<u32>, Vec<u64>) = workers.into_iter().unzip();
    let per_second = f64::from(turns.iter().sum::<u32>()) / started.elapsed().as_secs_f64();
    let longest = Duration::from_millis(pauses.into_iter().max().unwrap_or_default());
    println!("{per_second:.0} cycles a second, {turns:?}, longest pause {longest:?}");
    Ok(Progress { per_second, longest })
}

/// The cycles a second of one task on a key of its own, as a measure of this machine.
async fn alone_per_second(backend: &FirestoreBackend) -> Result<f64> {
    const CYCLES: u32 = 30;
    let mut started = Instant::now();
    for cycle in 0..=CYCLES {
        let held = backend.acquire(request("alone", 60_000)).await?;
        let held = held.acquired().context("a free key")?;
        assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
        if cycle == 0 {
            // The emulator's first answers are slow.
            started = Instant::now();
        }
    }
    Ok(f64::from(CYCLES) / started.elapsed().as_secs_f64())
}

struct Progress {
    per_second: f64,
    /// The longest time without a turn.
    longest: Duration,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixteen_on_one_key() -> Result<()> {
    let _alone = alone().await;
    // A client that loses learns that the lock is taken: no client sees an error, with or without retries.
    for retries in [FirestoreOptions::DEFAULT_CONFLICT_RETRIES, 0] {
        let backend = backend_with(&fresh(), options().with_conflict_retries(retries)).await;
        let alone = alone_per_second(&backend).await?;
        let progress = cycle(&backend, 1, |_| "hot".to_owned()).await?;
        // Measured: some 130. In transactions it was 0.3.
        assert!(progress.per_second > alone / 40.0, "{} of {alone}", progress.per_second);
        assert!(progress.longest < LIMIT, "{:?}", progress.longest);
    }
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

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
            .with_timeout(Duration::from_secs(240));
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

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn sixteen_on_keys_of_their_own() -> Result<()> {
        let _alone = alone().await;
        let backend = backend(&fresh()).await;
        let alone = alone_per_second(&backend).await?;
        let progress = cycle(&backend, 10, |worker| format!("k{worker}")).await?;
        // Measured: some 800, and 150 for a single task. In transactions it was 6, because they wait for each other for
        // two seconds.
        assert!(progress.per_second > alone / 4.0, "{} of {alone}", progress.per_second);
        assert!(progress.longest < LIMIT, "{:?}", progress.longest);
        Ok(())
    }
}
