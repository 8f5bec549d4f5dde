//! A minimum hold: the lock stays even if the work ends earlier, in any way.

use std::time::Duration;

use crate::common::{FaultyBackend, Trouble, is_locked, ms, settle};
use syncguard_core::contract::TIME_TOLERANCE;
use syncguard_core::diagnostics::get_by_key;
use syncguard_core::{
    AcquisitionOptions, AutoExtend, ErrorCode, LockConfig, LossReason, ReleaseResult, acquire,
    lock, try_acquire,
};
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "kept";
/// How much later than its minimum hold a lock may be free, because times are rounded up to a millisecond.
const ROUNDED: Duration = Duration::from_millis(2);

fn config(min_hold: u64) -> LockConfig {
    LockConfig::new(KEY).with_ttl(ms(60_000)).with_min_hold(ms(min_hold))
}

/// Returns when the key is free. It polls every millisecond.
async fn free_at(backend: &FaultyBackend) -> Instant {
    while is_locked(backend, KEY).await {
        sleep(ms(1)).await;
    }
    Instant::now()
}

/// Checks that the lock stays for exactly its minimum hold after `granted`.
async fn is_free_after(backend: &FaultyBackend, granted: Instant, min_hold: u64) {
    let held = free_at(backend).await - granted;
    assert!(held >= ms(min_hold), "free after {held:?} instead of {min_hold} ms");
    assert!(held <= ms(min_hold) + ROUNDED, "free after {held:?} instead of {min_hold} ms");
}

#[tokio::test(start_paused = true)]
async fn a_release_says_until_when_the_lock_stays() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    let guard = acquire(&backend, config(10_000)).await.unwrap();
    let lost = guard.lost();
    let expires_at = guard.expires_at();
    sleep(ms(3_000)).await;
    let answer = guard.release().await.unwrap();
    let ReleaseResult::Kept { until } = answer else { panic!("{answer:?}") };
    // The lock had a TTL of a minute, counted from the grant.
    let min_hold = until.as_millis() + 60_000 - expires_at.as_millis();
    assert!((10_000..=10_001).contains(&min_hold), "{min_hold}");
    assert!(answer.is_released());
    // The holder has lost the lock, although no other caller can take it yet.
    assert_eq!(lost.await, LossReason::Released);
    is_free_after(&backend, granted, 10_000).await;
    assert_eq!(backend.releases(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_outlasts_the_minimum_hold_is_released_at_once() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(2_000)).await.unwrap();
    sleep(ms(2_000)).await;
    assert_eq!(guard.release().await.unwrap(), ReleaseResult::Released);
    assert!(!is_locked(&backend, KEY).await);
    assert_eq!(backend.extends(), 0);
}

/// A lock that ends by its TTL stays for at least the tolerance from now on.
#[tokio::test(start_paused = true)]
async fn a_kept_lock_stays_for_the_tolerance_at_least() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    drop(acquire(&backend, config(5)).await.unwrap());
    let held = free_at(&backend).await - granted;
    assert!((TIME_TOLERANCE..=TIME_TOLERANCE + ROUNDED).contains(&held), "{held:?}");
}

#[tokio::test(start_paused = true)]
async fn a_drop_keeps_the_lock_in_the_background() {
    for config in [config(10_000), config(10_000).with_auto_extend(AutoExtend::new())] {
        let backend = FaultyBackend::new();
        let granted = Instant::now();
        drop(acquire(&backend, config).await.unwrap());
        settle().await;
        is_free_after(&backend, granted, 10_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_end_of_lock_keeps_the_lock_also_when_the_work_fails_or_panics() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    let failed = lock(&backend, config(5_000), async |_| Err::<(), _>("no")).await.unwrap();
    assert_eq!(failed, Err("no"));
    is_free_after(&backend, granted, 5_000).await;

    let granted = Instant::now();
    let work = {
        let backend = backend.clone();
        async move { lock(&backend, config(5_000), async |_| panic!("told to panic")).await }
    };
    let ended: Result<Result<(), _>, _> = tokio::spawn(work).await;
    assert!(ended.unwrap_err().is_panic());
    is_free_after(&backend, granted, 5_000).await;

    // The call is dropped while the work runs.
    let granted = Instant::now();
    let work = lock(&backend, config(5_000), async |_| sleep(ms(60_000)).await);
    assert!(timeout(ms(100), work).await.is_err());
    is_free_after(&backend, granted, 5_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_shorter_ttl_is_lengthened_and_a_longer_one_is_cut() {
    for ttl in [100, 3_000, 3_600_000] {
        let backend = FaultyBackend::new();
        let granted = Instant::now();
        let config = config(20_000).with_ttl(ms(ttl));
        acquire(&backend, config).await.unwrap().release().await.unwrap();
        is_free_after(&backend, granted, 20_000).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_is_not_kept() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(60_000).with_ttl(ms(100))).await.unwrap();
    sleep(ms(1_200)).await;
    let other = try_acquire(&backend, KEY).await.unwrap().acquired().unwrap();
    let answer = guard.release().await.unwrap();
    assert!(matches!(answer, ReleaseResult::NotHeld(_)), "{answer:?}");
    assert!(!other.is_lost() && is_locked(&backend, KEY).await);
}

/// A renewal is given up in flight, and arrives after the release has set the end of the minimum hold.
#[tokio::test(start_paused = true)]
async fn a_late_renewal_does_not_change_how_long_the_lock_stays() {
    for (min_hold, ttl, is_dropped) in [(5_000, 3_000, false), (7_000, 6_000, true)] {
        let backend = FaultyBackend::new();
        let granted = Instant::now();
        let config = config(min_hold).with_ttl(ms(ttl)).with_auto_extend(AutoExtend::new());
        let guard = acquire(&backend, config).await.unwrap();
        // The first renewal, after a third of the TTL, takes two seconds to arrive.
        backend.on_extend().before = ms(2_000);
        sleep(ms(ttl / 3 + 100)).await;
        *backend.on_extend() = Trouble::default();
        if is_dropped {
            drop(guard);
            settle().await;
        } else {
            assert!(matches!(guard.release().await.unwrap(), ReleaseResult::Kept { .. }));
        }
        let expiry = async || get_by_key(&backend, KEY).await.unwrap().unwrap().expires_at;
        let before = expiry().await;
        sleep(ms(2_500)).await;
        assert_eq!((backend.extends(), expiry().await), (2, before));
        is_free_after(&backend, granted, min_hold).await;
    }
}

/// The first request to keep the lock is given up, and arrives after the second.
#[tokio::test(start_paused = true)]
async fn a_late_request_to_keep_the_lock_does_not_keep_it_longer() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    let guard = acquire(&backend, config(5_000).with_dispose_timeout(ms(500))).await.unwrap();
    backend.on_extend().before = ms(3_000);
    let release = guard.release();
    let mended = async {
        sleep(ms(1)).await;
        *backend.on_extend() = Trouble::default();
    };
    let (answer, ()) = tokio::join!(release, mended);
    assert_eq!(answer.unwrap_err().code(), ErrorCode::NetworkTimeout);
    is_free_after(&backend, granted, 5_000).await;
    assert_eq!(backend.extends(), 2);
}

/// An extend took effect and its answer was lost, so the guard does not know the expiry of the lock.
#[tokio::test(start_paused = true)]
async fn an_unknown_expiry_is_found_out() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    let mut guard = acquire(&backend, config(5_000)).await.unwrap();
    backend.on_extend().reply_lost = true;
    assert!(guard.extend(ms(50_000)).await.is_err());
    *backend.on_extend() = Trouble::default();
    assert!(matches!(guard.release().await.unwrap(), ReleaseResult::Kept { .. }));
    is_free_after(&backend, granted, 5_000).await;
}

#[tokio::test(start_paused = true)]
async fn a_failed_deferral_is_repeated_until_the_minimum_hold_is_over() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    let guard = acquire(&backend, config(10_000)).await.unwrap();
    backend.on_extend().fails = Some(ErrorCode::ServiceUnavailable);
    assert_eq!(guard.release().await.unwrap_err().code(), ErrorCode::ServiceUnavailable);
    sleep(ms(4_000)).await;
    *backend.on_extend() = Trouble::default();
    is_free_after(&backend, granted, 10_000).await;

    // The store is back after the minimum hold: the lock is released.
    let guard = acquire(&backend, config(10_000)).await.unwrap();
    backend.on_extend().fails = Some(ErrorCode::ServiceUnavailable);
    guard.release().await.unwrap_err();
    sleep(ms(12_000)).await;
    assert!(!is_locked(&backend, KEY).await);
    assert_eq!(backend.releases(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_of_this_process_gets_a_kept_lock_when_it_is_free() {
    let backend = FaultyBackend::new();
    let granted = Instant::now();
    let guard = acquire(&backend, config(5_000)).await.unwrap();
    let waiting = tokio::spawn({
        let backend = backend.clone();
        async move {
            let patient = AcquisitionOptions::new().with_timeout(ms(60_000));
            let next = LockConfig::new(KEY).with_acquisition(patient);
            acquire(&backend, next).await.map(|guard| (guard, Instant::now()))
        }
    });
    sleep(ms(10)).await;
    guard.release().await.unwrap();
    let (next, at) = waiting.await.unwrap().unwrap();
    assert!((ms(5_000)..=ms(5_010)).contains(&(at - granted)), "{:?}", at - granted);
    drop(next);
}
