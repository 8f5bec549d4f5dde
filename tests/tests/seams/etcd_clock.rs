//! Locks live by the members' time: no clock of a client counts.

use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result};
use syncguard_etcd::authoring::recipes::{FenceWindow, Refusal};
use syncguard_etcd::contract::{AcquireResult, ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard_etcd::{
    ErrorCode, EtcdBackend, EtcdOptions, ExtendResult, Fence, LockBackend as _, Timestamp,
};
use syncguard_test_services::etcd::EtcdCluster;
use syncguard_tests::calls::until;

use super::Clock;
use crate::etcd::members::{in_front, is_busy};
use crate::etcd::support::{Raw, backend_at, backend_with, fresh, options, request, shared, take};

const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;

fn by(clock: &Clock) -> EtcdOptions {
    let clock = clock.clone();
    options().with_clock(move || clock.now())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_ahead_or_steps_takes_no_held_lock() -> Result<()> {
    for strict in [false, true] {
        let prefix = fresh();
        let holder = backend_with(&prefix, options()).await;
        let _held = take(&holder, "k", 5000).await;
        // The first operation of a process, and later ones.
        for ahead in [8000, -8000, HOUR] {
            let other = by(&Clock::ahead(ahead)).with_strict_clock(strict);
            assert!(is_busy(&backend_with(&prefix, other).await, "k").await?, "{ahead}");
        }
        let clock = Clock::default();
        let waiter = by(&clock).with_strict_clock(strict);
        let waiter = backend_with(&prefix, waiter).await;
        for ahead in [0, MINUTE, -MINUTE, HOUR, 0] {
            clock.set(ahead);
            assert!(is_busy(&waiter, "k").await?, "{ahead}");
        }
        clock.set(MINUTE);
        let drift = waiter.clock_drift().context("a drift")?;
        let (lowest, highest) = (drift.lowest, drift.highest);
        assert!(lowest <= MINUTE && MINUTE <= highest, "{lowest} {highest}");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_renewal_by_a_clock_that_went_back_keeps_the_lock() -> Result<()> {
    let prefix = fresh();
    let clock = Clock::default();
    let holder = backend_with(&prefix, by(&clock).with_strict_clock(true)).await;
    let other = backend_with(&prefix, options().with_strict_clock(true)).await;
    let held = take(&holder, "k", 60_000).await;
    let mut before = held.expires_at;
    for ahead in [-MINUTE, -HOUR, HOUR] {
        clock.set(ahead);
        let extend = ExtendRequest::new(held.lock_id, Duration::from_secs(62))?;
        let ExtendResult::Extended { expires_at } = holder.extend(extend).await? else {
            panic!("{ahead}: not extended");
        };
        // The first answer had whole seconds, so the bounds have become narrower.
        assert!(expires_at > before && expires_at - before < Duration::from_secs(600), "{ahead}");
        before = Timestamp::from_millis(before.as_millis().max(expires_at.as_millis() - 5000))?;
        assert!(is_busy(&other, "k").await?, "{ahead}");
    }
    Ok(())
}

/// The first answer has whole seconds: a clock that is up to 1.5 s ahead was within what it says.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_first_operation_of_a_process_takes_no_lock_too_early() -> Result<()> {
    const TTL: u64 = 1500;
    for strict in [true, false] {
        let prefix = fresh();
        let holder = backend_with(&prefix, options()).await;
        let began = Instant::now();
        let _held = take(&holder, "k", TTL).await;
        let mut refused = 0;
        loop {
            let other = by(&Clock::ahead(1350)).with_strict_clock(strict);
            let other = backend_with(&prefix, other).await;
            let answer = other.acquire(request("k", 60_000)).await?;
            if answer.is_acquired() {
                break;
            }
            refused += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let took = began.elapsed();
        assert!(took >= Duration::from_millis(TTL + 1000) && refused > 0, "{took:?} {refused}");
        // A free key does not wait for a second answer.
        let fast = backend_with(&prefix, options().with_strict_clock(strict)).await;
        let _free = take(&fast, "free", 60_000).await;
    }
    Ok(())
}

/// An hour ahead, a client would start all ticks of the next hour.
#[tokio::test]
async fn a_clock_that_is_ahead_starts_no_tick_early() -> Result<()> {
    let clock = Clock::ahead(HOUR);
    let ours = backend_with(&fresh(), by(&clock)).await;
    let now = Timestamp::from_system_time(SystemTime::now())?;
    let tick = |seconds: u64| -> Result<FenceWindow> {
        let at = Timestamp::from_millis(now.as_millis() + seconds * 1000)?;
        let fence = Fence::new(at.as_millis())?;
        Ok(FenceWindow::new(fence, fence)?.with_not_before(at))
    };
    // By the first answer, and after steps.
    for ahead in [HOUR, 0, HOUR, -HOUR, HOUR] {
        clock.set(ahead);
        let early = ours.acquire(request("k", 1000).with_fence_window(tick(1800)?)).await?;
        let AcquireResult::Refused(Refusal::TooEarly { wait }) = early else { panic!("{early:?}") };
        assert!(wait > Duration::from_secs(1700) && wait < Duration::from_secs(1803), "{wait:?}");
    }
    let due = || request("k", 1000).with_fence_window(tick(0).unwrap());
    until("due", async || ours.acquire(due()).await.unwrap().is_acquired()).await;
    Ok(())
}

/// A proxy that lets only calls through: this machine's clock counts, its steps are noticed, and a strict backend refuses.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_members_time_the_clock_counts_and_its_steps_do_not() -> Result<()> {
    let port = in_front(shared().port(0), None).await?;
    let (prefix, clock) = (fresh(), Clock::default());
    let strict = backend_at(port, &prefix, options().with_strict_clock(true)).await;
    let error = strict.acquire(request("k", 1)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error:?}");
    assert!(error.message().contains("time is not known"), "{error:?}");
    let ours = backend_at(port, &prefix, by(&clock)).await;
    let held = take(&ours, "k", 30_000).await;
    let waiter_clock = Clock::default();
    let waiter = backend_at(port, &prefix, by(&waiter_clock)).await;
    assert!(is_busy(&waiter, "k").await?);
    waiter_clock.set(MINUTE);
    assert!(is_busy(&waiter, "k").await?, "the earlier reading decides");
    clock.set(-MINUTE);
    let extend = ExtendRequest::new(held.lock_id, Duration::from_secs(31))?;
    let ExtendResult::Extended { expires_at } = ours.extend(extend).await? else { panic!() };
    assert!(expires_at > held.expires_at, "the later reading is written");
    assert!(ours.clock_drift().is_none());
    assert!(ours.report().await?.told[0].clock.is_none());
    assert!(ours.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    Ok(())
}

/// A member of the other cluster is the next one after a failure, and a backend that asks no member for its time meets it late.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_member_of_another_cluster_is_refused_after_a_failure() -> Result<()> {
    let (mut one, other) = (EtcdCluster::start(1)?, EtcdCluster::start(1)?);
    let url = format!("etcd://127.0.0.1:{},127.0.0.1:{}/two", one.port(0), other.port(0));
    let hasty = EtcdOptions::new().without_clock_probe();
    let backend = loop {
        let backend = EtcdBackend::connect_with(&url, hasty.clone()).await?;
        assert!(!backend.is_locked(IsLockedRequest::new("k")?).await?);
        let held = take(&backend, "k", 60_000).await;
        if Raw(&one).get("two/l/k").is_some() {
            break backend;
        }
        assert!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    };
    let before = Raw(&other).names("two/");
    one.kill(0)?;
    let mut errors = Vec::new();
    until("refused", async || {
        let error = backend.acquire(request("other", 60_000)).await.unwrap_err();
        errors.push(error.code());
        errors.contains(&ErrorCode::InvalidArgument)
    })
    .await;
    assert_eq!(Raw(&other).names("two/"), before);
    Ok(())
}
