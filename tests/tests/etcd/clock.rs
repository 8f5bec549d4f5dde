//! The clocks of the clients decide about locks here, so a wrong one is noticed, and uses up no tick.

use std::time::{Duration, Instant, SystemTime};

use anyhow::Result;
use syncguard_etcd::contract::{
    AcquireResult, FenceWindow, IsLockedRequest, Refusal, ReleaseRequest,
};
use syncguard_etcd::{DriftLevel, ErrorCode, EtcdOptions, Fence, LockBackend as _, Timestamp};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::until;

use crate::etcd::support::{backend_at, backend_with, fresh, options, request, shared, take};

/// Options with a clock that is this many milliseconds ahead of the machine's.
fn with_clock_ahead(millis: i64) -> EtcdOptions {
    let by = Duration::from_millis(millis.unsigned_abs());
    options().with_clock(
        move || {
            if millis < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
        },
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wrong_clock_is_noticed_and_a_strict_backend_stops() -> Result<()> {
    for (ahead, level) in
        [(0, DriftLevel::Fine), (700, DriftLevel::Block), (-320, DriftLevel::Warn)]
    {
        let options = with_clock_ahead(ahead);
        let prefix = fresh();
        let loose = backend_with(&prefix, options.clone()).await;
        assert!(loose.clock_drift().is_none());
        let lock = take(&loose, "k", 60_000).await;
        let told = async || loose.clock_drift().is_some_and(|drift| drift.level() == level);
        until("noticed", told).await;
        let (lowest, highest) = loose.clock_drift().unwrap().bounds_millis();
        assert!(lowest - 2 <= ahead && ahead <= highest + 2, "{lowest} {ahead} {highest}");

        let strict = backend_with(&prefix, options.with_strict_clock(true)).await;
        let stopped = async || match strict.acquire(request("k2", 1)).await {
            Ok(_) => false,
            Err(error) => {
                assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
                true
            }
        };
        if level == DriftLevel::Block {
            until("stopped", stopped).await;
        } else {
            assert!(!stopped().await);
        }
        assert!(strict.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
    }
    // A process may take a single lock: the first measurement shows a clock that is a minute off.
    for _ in 0..5 {
        let ahead = with_clock_ahead(60_000).with_strict_clock(true);
        let strict = backend_with(&fresh(), ahead).await;
        // The connection is open: an acquire that did not wait for the measurement would often be faster.
        assert!(!strict.is_locked(IsLockedRequest::new("k")?).await?);
        let error = strict.acquire(request("k", 1)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    }
    Ok(())
}

/// A measurement makes nine connections, and the calls share one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_clock_is_measured_once_a_minute() -> Result<()> {
    let proxy = FaultProxy::start(shared().port(0))?;
    let ours = backend_at(proxy.port(), &fresh(), options()).await;
    let began = Instant::now();
    for number in 0..50 {
        let _ = take(&ours, &format!("k{number}"), 60_000).await;
    }
    until("measured", async || proxy.counters().connections > 1).await;
    let (seen, minutes) = (proxy.counters().connections, began.elapsed().as_secs() / 60);
    assert!(seen <= 10 + 9 * minutes, "{seen} connections in {minutes} minutes");
    Ok(())
}

/// An hour ahead, a client would start all ticks of the next hour. Even its first acquire knows better.
#[tokio::test]
async fn a_clock_that_is_ahead_starts_no_tick_early() -> Result<()> {
    const HOUR: i64 = 3_600_000;
    let options = with_clock_ahead(HOUR);
    let ours = backend_with(&fresh(), options).await;
    let now = Timestamp::from_system_time(SystemTime::now())?;
    let tick = |seconds: u64| -> Result<FenceWindow> {
        let at = Timestamp::from_millis(now.as_millis() + seconds * 1000)?;
        let fence = Fence::new(at.as_millis())?;
        Ok(FenceWindow::new(fence, fence)?.with_not_before(at))
    };
    let early = ours.acquire(request("k", 1000).with_fence_window(tick(1800)?)).await?;
    let AcquireResult::Refused(Refusal::TooEarly { wait }) = early else { panic!("{early:?}") };
    assert!(wait > Duration::from_secs(1790) && wait < Duration::from_secs(1803), "{wait:?}");
    assert!(ours.acquire(request("k", 1000).with_fence_window(tick(0)?)).await.is_ok());
    Ok(())
}
