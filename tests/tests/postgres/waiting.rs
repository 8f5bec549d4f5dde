//! Many waiters, and few connections.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::deadpool_postgres::Object;
use syncguard_postgres::{
    AcquisitionOptions, Backoff, ErrorCode, LockBackend as _, LockConfig, PostgresBackend, acquire,
    lock,
};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;
use tokio::task::JoinSet;

use crate::postgres::support::{
    MINUTE, Tables, connect, is_refused, pool, request, shared, take, url_of,
};

/// A holder gets a connection although hundreds of contenders never stop.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holders_are_served_while_contenders_throng() -> Result<()> {
    const CONTENDERS: usize = 600;
    const WAY: Duration = Duration::from_millis(5);
    for connections in [1, 2, 8] {
        let tables = Tables::fresh();
        drop(tables.backend(1).await);
        let proxy = FaultProxy::start(shared().port())?;
        let connected = pool(&url_of(proxy.port()), connections);
        let options = tables.options().with_pool_wait_timeout(MINUTE);
        let backend = PostgresBackend::from_pool(connected, options).expect("options in range");
        let held = take(&backend, "hot").await;
        proxy.set_latency(WAY, WAY);
        let answers = Arc::new(AtomicUsize::new(0));
        let mut contenders = JoinSet::new();
        for _ in 0..CONTENDERS {
            let (backend, answers) = (backend.clone(), Arc::clone(&answers));
            contenders.spawn(async move {
                while is_refused(&backend, "hot").await {
                    answers.fetch_add(1, Ordering::SeqCst);
                }
            });
        }
        let answered = || answers.load(Ordering::SeqCst);
        let begun = Instant::now();
        while answered() < CONTENDERS / 20 {
            ensure!(begun.elapsed() < MINUTE, "{} answers", answered());
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let mut overtakers = Vec::new();
        for _ in 0..20 {
            let before = answered();
            let extend = backend.extend(ExtendRequest::new(held.lock_id, MINUTE)?).await?;
            ensure!(extend.is_extended());
            overtakers.push(answered() - before);
        }
        ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
        contenders.abort_all();
        overtakers.sort_unstable();
        // An extend takes its own round trip and at most one other, not those of all earlier callers.
        ensure!(overtakers[10] < CONTENDERS / 4, "{connections}: {overtakers:?}");
    }
    Ok(())
}

/// A waiting `acquire()` holds no connection between its attempts.
#[tokio::test]
async fn waiting_holds_no_connection() -> Result<()> {
    let backend = Tables::fresh().backend(1).await;
    let held = take(&backend, "key").await;
    let slow = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_retry_delay(Duration::from_millis(300))
        .with_timeout(MINUTE);
    let waiting = tokio::spawn({
        let backend = backend.clone();
        async move { acquire(&backend, LockConfig::new("key").with_acquisition(slow)).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let started = Instant::now();
    loop {
        let status = backend.pool().status();
        if status.size == 1 && status.available == 1 && status.waiting == 0 {
            break;
        }
        ensure!(started.elapsed() < Duration::from_secs(20), "{status:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    ensure!(backend.lookup(LookupRequest::by_key("key")?).await?.is_some());
    ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    ensure!(waiting.await??.release().await?.is_released());
    Ok(())
}

/// An attempt on a held key does not wait: not for the key's advisory lock, its row or its counter.
#[tokio::test]
async fn contenders_wait_for_nothing() -> Result<()> {
    let tables = Tables::fresh();
    let backend = tables.backend(1).await;
    let _ = take(&backend, "key").await;
    let mut other = connect(&shared().url()).await;
    let everything = other.transaction().await?;
    let Tables { locks, fences } = &tables;
    let sql = format!(
        "SELECT pg_advisory_xact_lock(hashtext('key'));
         SELECT FROM {locks} FOR UPDATE; SELECT FROM {fences} FOR UPDATE"
    );
    everything.batch_execute(&sql).await?;
    for _ in 0..20 {
        ensure!(is_refused(&backend, "key").await);
    }
    Ok(())
}

/// A pool without a free connection is `RateLimited`, after the configured wait and no later.
#[tokio::test]
async fn an_exhausted_pool_is_rate_limited() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let options = tables.options().with_pool_wait_timeout(Duration::from_millis(100));
    let pool = pool(&shared().url(), 1);
    let backend = PostgresBackend::from_pool(pool.clone(), options).expect("options in range");
    let patient = PostgresBackend::from_pool(pool, tables.options()).expect("options in range");
    let borrowed = backend.pool().get().await?;
    for attempt in 0..2 {
        let started = Instant::now();
        let error = match attempt {
            0 => backend.acquire(request("key", MINUTE)).await.err(),
            _ => backend.lookup(LookupRequest::by_key("key")?).await.err(),
        };
        let error = error.context("no connection")?;
        ensure!(error.code() == ErrorCode::RateLimited, "{error}");
        ensure!(error.is_retryable() && !error.is_outcome_unknown());
        ensure!(started.elapsed() < Duration::from_secs(4));
    }
    drop(borrowed);
    let lock = take(&patient, "key").await;
    // A connection taken out of the pool is replaced.
    drop(Object::take(backend.pool().get().await?));
    ensure!(patient.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    /// Ten thousand tasks want one key over eight connections; each has its turn, one at a time.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn ten_thousand_tasks_share_a_key_and_eight_connections() -> Result<()> {
        const TASKS: usize = 10_000;
        // The test is about queues, not about disks.
        let server = PostgresServer::builder().config("fsync = off").start()?;
        let tables = Tables::fresh();
        // A crowd of ten thousand may have to queue for a connection for longer than the default allows.
        let options = tables.options().with_pool_wait_timeout(Duration::from_secs(60));
        let backend = PostgresBackend::from_pool(
            tables.backend_at(&server.url(), 8).await.pool().clone(),
            options,
        )
        .expect("options in range");
        let patient = AcquisitionOptions::new()
            .with_max_retries(u32::MAX)
            .with_backoff(Backoff::Fixed)
            .with_retry_delay(Duration::from_millis(1500))
            .with_timeout(Duration::from_secs(1200));
        let inside = Arc::new(AtomicUsize::new(0));
        let done = Arc::new(AtomicUsize::new(0));
        let mut tasks = JoinSet::new();
        for _ in 0..TASKS {
            let (backend, inside, done) = (backend.clone(), Arc::clone(&inside), Arc::clone(&done));
            let config = LockConfig::new("hot").with_acquisition(patient);
            tasks.spawn(async move {
                lock(&backend, config, async |_| {
                    assert_eq!(inside.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                    done.fetch_add(1, Ordering::SeqCst);
                    inside.fetch_sub(1, Ordering::SeqCst);
                })
                .await
            });
        }
        while let Some(task) = tasks.join_next().await {
            task??;
        }
        ensure!(done.load(Ordering::SeqCst) == TASKS);
        let status = backend.pool().status();
        ensure!(status.size <= 8 && status.available == status.size, "{status:?}");
        Ok(())
    }
}
