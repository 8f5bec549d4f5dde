//! Late acquires, and late answers to acquires.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Result;
use syncguard_redis::contract::ReleaseRequest;
use syncguard_redis::{
    AcquisitionOptions, ErrorCode, LockBackend as _, LockConfig, RedisBackend, RedisOptions, lock,
    try_acquire,
};
use tokio::task::JoinSet;

use super::{HOUR, Line, cleaned_up, soon};
use crate::redis::support::{Raw, request, take};

/// Sends an acquire that is held back.
async fn acquire_held_back(line: &Line, backend: &RedisBackend) -> tokio::task::JoinHandle<()> {
    line.hold_next();
    let backend = backend.clone();
    let acquire = tokio::spawn(async move {
        let error = backend.acquire(request("k", HOUR)).await.unwrap_err();
        assert!(error.is_outcome_unknown(), "{error:?}");
    });
    line.caught().await;
    acquire
}

#[tokio::test]
async fn an_acquire_past_its_deadline_takes_no_lock() -> Result<()> {
    for sever in [false, true] {
        let line = Line::start().await?;
        let backend = line.backend(1, 500).await?;
        let acquire = acquire_held_back(&line, &backend).await;
        acquire.await?;
        // The clean-up ends before the request arrives.
        cleaned_up(&backend).await;
        if sever {
            line.proxy.sever_clients();
        }
        line.deliver().await;
        assert_eq!(line.expiry("k").await, None);
        assert_eq!(take(&line.direct, "k", 1000).await.fence.get(), 1, "it wrote nothing");
    }
    Ok(())
}

#[tokio::test]
async fn an_acquire_that_arrives_after_its_release_is_released_again() -> Result<()> {
    let line = Line::start().await?;
    let backend = line.backend(1, 5_000).await?;
    let acquire = acquire_held_back(&line, &backend).await;
    let released = line.raw.calls("evalsha").await;
    line.proxy.sever_clients();
    acquire.await?;
    // There is no lock to release, but the request in progress may still arrive.
    soon("a release", || async { line.raw.calls("evalsha").await > released }).await;
    assert_eq!(backend.client_state().clean_up().waiting(), 1);
    line.deliver().await;
    assert!(line.expiry("k").await.is_some(), "it came in time");
    cleaned_up(&backend).await;
    assert_eq!(line.expiry("k").await, None);
    Ok(())
}

#[tokio::test]
async fn an_acquire_that_was_dropped_and_arrives_in_time_is_released() -> Result<()> {
    let line = Line::start().await?;
    let backend = line.backend(1, 10_000).await?;
    let acquire = acquire_held_back(&line, &backend).await;
    acquire.abort();
    let _ = acquire.await;
    line.deliver().await;
    cleaned_up(&backend).await;
    assert_eq!(line.expiry("k").await, None);
    assert_eq!(take(&line.direct, "k", 1000).await.fence.get(), 2, "it was granted");
    Ok(())
}

#[tokio::test]
async fn a_server_that_was_stopped_keeps_no_orphans() -> Result<()> {
    const KEYS: usize = 20;
    let mut line = Line::start().await?;
    let backend = line.backend(2, 300).await?;
    for round in 0..2 {
        line.server.pause()?;
        let mut acquires = JoinSet::new();
        for number in 0..KEYS {
            let backend = backend.clone();
            acquires.spawn(async move {
                let key = format!("{round}-{number}");
                backend.acquire(request(&key, HOUR)).await.unwrap_err()
            });
        }
        while let Some(error) = acquires.join_next().await {
            assert!(error?.is_retryable());
        }
        tokio::time::sleep(Duration::from_millis(200)).await;
        line.server.resume()?;
        cleaned_up(&backend).await;
        let mut orphans = 0;
        for number in 0..KEYS {
            orphans += usize::from(line.expiry(&format!("{round}-{number}")).await.is_some());
        }
        assert_eq!(orphans, 0, "of {KEYS}");
    }
    assert_eq!(backend.client_state().clean_up().left_to_ttl(), 0);
    Ok(())
}

#[tokio::test]
async fn no_work_starts_under_a_lock_that_is_over_when_the_answer_comes() -> Result<()> {
    let line = Line::start().await?;
    let backend = line.backend(1, 5_000).await?;
    line.proxy.set_latency(Duration::ZERO, Duration::from_millis(1200));
    let config = |key: &str| {
        let options = AcquisitionOptions::new().with_max_retries(1);
        LockConfig::new(key.to_owned()).with_ttl(Duration::from_secs(1)).with_acquisition(options)
    };
    let started = AtomicBool::new(false);
    let (waited, tried) = tokio::join!(
        lock(&backend, config("waited"), async |_| started.store(true, Ordering::Relaxed)),
        try_acquire(&backend, config("tried")),
    );
    for error in [waited.unwrap_err(), tried.map(drop).unwrap_err()] {
        assert_eq!(error.code(), ErrorCode::NetworkTimeout, "{error:?}");
        assert!(error.message().contains("longer than the TTL"), "{error}");
    }
    assert!(!started.load(Ordering::Relaxed));
    line.proxy.set_latency(Duration::ZERO, Duration::ZERO);
    cleaned_up(&backend).await;
    assert_eq!((line.expiry("waited").await, line.expiry("tried").await), (None, None));
    Ok(())
}

#[tokio::test]
async fn a_clients_first_write_asks_for_the_time_and_no_other_does() -> Result<()> {
    let line = Line::start().await?;
    let client = Raw::connect(&line.server.url()).await.0;
    let backend = RedisBackend::from_client(client, RedisOptions::new())?;
    // Scripts call TIME as well, and are in these statistics.
    let asked = async || {
        let (time, scripts) = (line.raw.calls("time").await, line.raw.calls("evalsha").await);
        time - scripts
    };
    let before = asked().await;
    for _ in 0..3 {
        let lock = take(&backend, "k", 1000).await;
        assert!(backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    assert_eq!(asked().await, before + 1);
    Ok(())
}
