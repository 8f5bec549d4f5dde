//! Late effects: after a later request, after the caller has moved on, after the runtime has ended.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{FaultyBackend, ReportedErrors, Trouble, is_locked, ms, runtime, settle};
use syncguard_core::authoring::cancel;
use syncguard_core::contract::{IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_core::diagnostics::get_by_id;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    AcquisitionOptions, AutoExtend, ErrorCode, ExtendResult, LockBackend, LockConfig, LockGuard,
    LossReason, NotHeld, acquire, lock, try_acquire,
};
use tokio::runtime::Builder;
use tokio::time::{advance, sleep, timeout};

const KEY: &str = "late";

fn config(ttl: u64) -> LockConfig {
    LockConfig::new(KEY).with_ttl(ms(ttl))
}

/// Waits in real time until the condition holds.
fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..500 {
        if holds() {
            return;
        }
        std::thread::sleep(ms(10));
    }
    panic!("{what}: not within five seconds");
}

/// The time until the store's expiry of a lock.
async fn kept_for(backend: &FaultyBackend, guard: &LockGuard<FaultyBackend>) -> Duration {
    let info = get_by_id(&backend.store, guard.lock_id()).await.unwrap().expect("a live lock");
    info.expires_at - backend.store.now()
}

#[tokio::test(start_paused = true)]
async fn a_late_extend_never_shortens_what_a_later_one_promised() {
    // In the same millisecond, the later one would set the very expiry that the late one expects.
    for later in [ms(10), ms(0)] {
        let backend = FaultyBackend::new();
        let mut guard = acquire(&backend, config(60_000)).await.unwrap();
        let first = guard.expires_at();
        backend.on_extend().before = ms(500);
        assert!(timeout(later, guard.extend(ms(3_000))).await.is_err());
        assert!(guard.valid_for() <= ms(3_000), "the earlier end counts");

        backend.on_extend().before = ms(0);
        assert!(guard.extend(ms(60_000)).await.unwrap().is_extended());
        assert_ne!(guard.expires_at(), first);
        // The first one lands.
        sleep(ms(1_000)).await;
        assert!(guard.valid_for() > ms(58_000));
        assert!(kept_for(&backend, &guard).await >= guard.valid_for());
    }
}

/// An extend sets the very expiry that a late extend expects, so the guard extends the lock once more.
#[tokio::test(start_paused = true)]
async fn an_expiry_that_a_late_extend_expects_is_extended_once_more() {
    let backend = FaultyBackend::new();
    let mut guard = acquire(&backend, config(10_000)).await.unwrap();
    let known = guard.expires_at();
    backend.on_extend().before = ms(5_000);
    assert!(timeout(ms(0), guard.extend(ms(1_000))).await.is_err());
    backend.on_extend().before = ms(0);
    assert!(guard.extend(ms(20_000)).await.unwrap().is_extended());
    sleep(ms(2_000)).await;
    assert!(guard.extend(ms(8_000)).await.unwrap().is_extended());
    assert_ne!(guard.expires_at(), known);
    assert_eq!(backend.extends(), 4);
    // The late one lands.
    sleep(ms(4_000)).await;
    assert!(guard.valid_for() > ms(3_000));
    assert!(kept_for(&backend, &guard).await >= guard.valid_for());
}

/// An extend can set the very expiry that a late extend expects. Before its answer comes, the late extend can then
/// shorten the lock. However many further extends with that expectation were given up since, the guard remembers it.
#[tokio::test(start_paused = true)]
async fn the_holder_does_not_rely_on_time_that_a_late_extend_may_take_away() {
    for given_up in [0, 40] {
        let backend = FaultyBackend::new();
        let trouble = |trouble| *backend.behaviour.extend.lock().unwrap() = trouble;
        let mut guard = acquire(&backend, config(10_000)).await.unwrap();
        let known = guard.expires_at();
        trouble(Trouble { before: ms(5_000), ..Trouble::default() });
        assert!(timeout(ms(0), guard.extend(ms(1_000))).await.is_err());
        trouble(Trouble { fails: Some(ErrorCode::NetworkTimeout), ..Trouble::default() });
        for _ in 0..given_up {
            assert!(guard.extend(ms(20_000)).await.is_err());
        }
        trouble(Trouble::default());
        assert!(guard.extend(ms(20_000)).await.unwrap().is_extended());
        assert_eq!(guard.valid_for(), ms(20_000));

        sleep(ms(2_000)).await;
        trouble(Trouble { after: ms(4_000), ..Trouble::default() });
        let lost = guard.lost_token();
        let extending = tokio::spawn(async move { guard.extend(ms(8_000)).await });
        sleep(ms(500)).await;
        let held = backend.lookup(LookupRequest::by_key(KEY).unwrap()).await.unwrap().unwrap();
        assert_eq!(held.expires_at, known, "the former expiry is back");
        assert!(!lost.is_cancelled());
        sleep(ms(3_000)).await;
        let held = backend.lookup(LookupRequest::by_key(KEY).unwrap()).await.unwrap().unwrap();
        assert!(held.expires_at < known, "the late extend has shortened the lock");
        assert!(lost.is_cancelled(), "the holder relied on less time, after {given_up} others");
        let _ = extending.await.unwrap();
    }
}

/// A dead connection costs no renewal.
#[tokio::test(start_paused = true)]
async fn an_extend_whose_connection_breaks_is_followed_by_another() {
    let backend = FaultyBackend::new();
    let mut guard = acquire(&backend, config(10_000)).await.unwrap();
    backend.on_extend().breaks = 1;
    sleep(ms(10)).await;
    assert!(guard.extend(ms(60_000)).await.unwrap().is_extended());
    assert_eq!(backend.extends(), 3, "broken, mismatch, extended");
    assert_eq!(guard.valid_for(), ms(60_000));
    assert!(kept_for(&backend, &guard).await >= ms(60_000));
    // The number of tries is limited.
    backend.on_extend().breaks = 100;
    assert_eq!(guard.extend(ms(60_000)).await.unwrap_err().code(), ErrorCode::ServiceUnavailable);
}

#[tokio::test(start_paused = true)]
async fn the_expiry_that_a_lost_answer_set_is_extended_in_turn() {
    let backend = FaultyBackend::new();
    let mut guard = acquire(&backend, config(60_000)).await.unwrap();
    backend.on_extend().reply_lost = true;
    guard.extend(ms(3_000)).await.unwrap_err();
    backend.on_extend().reply_lost = false;
    let extends = backend.extends();
    // A millisecond later, so that the expiry is a new one.
    sleep(ms(1)).await;
    assert!(guard.extend(ms(60_000)).await.unwrap().is_extended());
    assert_eq!(backend.extends(), extends + 2, "mismatch, extended");
    assert_eq!(guard.valid_for(), ms(60_000));
    assert!(kept_for(&backend, &guard).await >= ms(60_000));
}

#[tokio::test(start_paused = true)]
async fn a_late_renewal_never_shortens_an_extend_of_the_holder() {
    let backend = FaultyBackend::new();
    let mut guard =
        acquire(&backend, config(3_000).with_auto_extend(AutoExtend::new())).await.unwrap();
    // The renewal after a second takes longer than the renewer waits for it.
    backend.on_extend().before = ms(2_500);
    sleep(ms(1_100)).await;
    assert_eq!(backend.extends(), 1);
    backend.on_extend().before = ms(0);
    assert!(guard.extend(ms(60_000)).await.unwrap().is_extended());
    sleep(ms(3_000)).await;
    assert!(guard.valid_for() > ms(50_000));
    assert!(kept_for(&backend, &guard).await >= guard.valid_for());
    assert!(!guard.is_lost());
}

#[tokio::test(start_paused = true)]
async fn a_grant_that_comes_too_late_is_given_back_and_tried_again() {
    let backend = FaultyBackend::new();
    // The first reply takes longer than the TTL, but less than the TTL and the tolerance of the store.
    *backend.on_acquire() = Trouble { after: ms(1_500), ..Trouble::default() };
    // The late lock is released several times.
    backend.on_release().reply_lost = true;
    let other = backend.clone();
    let heals = tokio::spawn(async move {
        sleep(ms(1_400)).await;
        other.on_acquire().after = ms(0);
        sleep(ms(500)).await;
        other.on_release().reply_lost = false;
    });
    let work = lock(&backend, config(1_000), async |held| {
        assert!(!held.is_lost(), "the work never starts on a lock that is over");
        sleep(ms(600)).await;
        is_locked(&backend, KEY).await
    });
    assert!(work.await.unwrap(), "the releases of the late lock do not touch the next one");
    heals.await.unwrap();
    assert_eq!(backend.acquires(), 2);
    settle().await;
    assert!(!is_locked(&backend, KEY).await);
}

#[tokio::test(start_paused = true)]
async fn grants_that_are_always_too_late_end_in_a_network_timeout() {
    let backend = FaultyBackend::new();
    *backend.on_acquire() = Trouble { after: ms(150), ..Trouble::default() };
    let error = try_acquire(&backend, config(100)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout);
    assert!(!error.is_outcome_unknown(), "the grant is known, and given back");
    settle().await;
    assert!(!is_locked(&backend, KEY).await);

    let limits = AcquisitionOptions::new().with_max_retries(2).with_retry_delay(ms(10));
    let error = acquire(&backend, config(100).with_acquisition(limits)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout);
    settle().await;
    assert!(!is_locked(&backend, KEY).await);
    // A grant can be late for the cap on the hold as well.
    let capped = AutoExtend::new().with_max_hold(ms(100));
    let error = try_acquire(&backend, config(60_000).with_auto_extend(capped)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_store_that_hangs_is_not_contention_whenever_it_began_to() {
    let backend = FaultyBackend::new();
    let _holder = acquire(&backend, config(600_000)).await.unwrap();
    let limits = AcquisitionOptions::new().with_timeout(ms(2_000));
    let contended = || LockConfig::new(KEY).with_acquisition(limits);
    // The store answers at first.
    let waiting = tokio::spawn({
        let (backend, config) = (backend.clone(), contended());
        async move { acquire(&backend, config).await.map(drop) }
    });
    sleep(ms(500)).await;
    backend.on_acquire().before = Duration::from_secs(3_600);
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout);
    assert!(error.is_outcome_unknown());
    // The store is slow, but answers.
    backend.on_acquire().before = ms(180);
    let error = acquire(&backend, contended()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_guard_whose_time_is_over_never_comes_back() {
    let backend = FaultyBackend::new();
    let mut guard = acquire(&backend, config(1_000)).await.unwrap();
    // The guard was not used since. For the store, the lock is live within the tolerance.
    advance(ms(1_500)).await;
    assert_eq!(guard.extend(ms(60_000)).await.unwrap(), ExtendResult::NotHeld(NotHeld::Expired));
    assert_eq!(guard.valid_for(), Duration::ZERO);
    assert_eq!(backend.extends(), 0, "nothing is sent");

    drop(guard);
    settle().await;
    let mut guard = acquire(&backend, config(1_000)).await.unwrap();
    // The extend is sent in time and answered too late.
    backend.on_extend().after = ms(1_200);
    assert!(!guard.extend(ms(60_000)).await.unwrap().is_extended());
    assert!(guard.is_lost());
}

#[test]
fn a_late_loss_is_announced_without_a_runtime_as_well() {
    let first = runtime();
    let backend = FaultyBackend::new();
    let guard = first.block_on(acquire(&backend, config(300))).unwrap();
    // Asked outside a runtime.
    let token = guard.lost_token();
    assert!(!token.is_cancelled());
    eventually("the token fires without a runtime", || token.is_cancelled());
    assert!(guard.is_lost());

    // Asked in a runtime that ends before the lock.
    let backend = FaultyBackend::new();
    let guard = first.block_on(acquire(&backend, config(300))).unwrap();
    let watching = runtime();
    let token = watching.block_on(async { guard.lost_token() });
    drop(watching);
    assert!(!token.is_cancelled(), "the end of the runtime does not fire the token");
    eventually("the token fires although its runtime has ended", || token.is_cancelled());

    // Asked in a runtime without timers, and by a future that no runtime polls.
    let backend = FaultyBackend::new();
    let guard = first.block_on(acquire(&backend, config(4_000))).unwrap();
    let token =
        Builder::new_current_thread().build().unwrap().block_on(async { guard.lost_token() });
    let mut lost = Box::pin(guard.lost());
    let mut poll = || lost.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    eventually("lost() resolves without a runtime", || poll() == Poll::Ready(LossReason::Expired));
    assert!(token.is_cancelled());
}

#[test]
fn a_late_loss_is_announced_after_the_renewer_has_ended_with_its_runtime() {
    let first = runtime();
    let backend = FaultyBackend::new();
    let kept = config(400).with_auto_extend(AutoExtend::new());
    let guard = first.block_on(acquire(&backend, kept)).unwrap();
    let token = guard.lost_token();
    drop(first);
    assert!(
        !token.is_cancelled() && !guard.valid_for().is_zero(),
        "the lock is held until its TTL is over"
    );
    eventually("the token fires", || token.is_cancelled());

    // The lock is given back in the runtime in which the guard is released.
    let second = runtime();
    let heard = second.block_on(async {
        let kept = LockConfig::new("kept").with_ttl(ms(60_000)).with_auto_extend(AutoExtend::new());
        let third = runtime_elsewhere(&backend, kept);
        assert!(is_locked(&backend, "kept").await);
        third.release().await
    });
    assert!(heard.unwrap().is_released());
}

/// A guard whose runtime has ended.
fn runtime_elsewhere(backend: &FaultyBackend, config: LockConfig) -> LockGuard<FaultyBackend> {
    let backend = backend.clone();
    std::thread::spawn(move || runtime().block_on(acquire(&backend, config)).unwrap())
        .join()
        .unwrap()
}

#[tokio::test]
async fn a_guard_is_released_in_a_live_runtime_though_its_own_has_ended() {
    let backend = FaultyBackend::new();
    let kept = LockConfig::new("kept").with_auto_extend(AutoExtend::new());
    for (key, config) in [("plain", LockConfig::new("plain")), ("kept", kept)] {
        let config = config.with_ttl(ms(60_000));
        drop(runtime_elsewhere(&backend, config.clone()));
        sleep(ms(50)).await;
        assert!(!is_locked(&backend, key).await, "{key}: dropped");
        let guard = runtime_elsewhere(&backend, config.clone());
        assert!(guard.release().await.unwrap().is_released(), "{key}: released");
        // A release that waits when its runtime ends is sent in the next runtime.
        backend.on_release().before = ms(100);
        let guard = runtime_elsewhere(&backend, config);
        let other = runtime();
        std::thread::spawn(move || {
            other.block_on(async { drop(guard) });
            drop(other);
        })
        .join()
        .unwrap();
        backend.on_release().before = ms(0);
        drop(acquire(&backend, "wakes the queue").await.unwrap());
        for _ in 0..100 {
            if !is_locked(&backend, key).await {
                break;
            }
            sleep(ms(20)).await;
        }
        assert!(!is_locked(&backend, key).await, "{key}: dropped in a runtime that ended");
    }
}

#[test]
fn without_a_runtime_or_timers_operations_are_errors_and_nothing_panics() {
    let backend = FaultyBackend::new();
    let guard = runtime().block_on(acquire(&backend, config(60_000))).unwrap();
    let context = &mut Context::from_waker(Waker::noop());
    let refused = |code| assert_eq!(code, ErrorCode::InvalidArgument);
    let id = guard.lock_id();

    let mut release = Box::pin(backend.release(ReleaseRequest::new(id)));
    let Poll::Ready(Err(error)) = release.as_mut().poll(context) else { panic!("no answer") };
    refused(error.code());
    let mut read = Box::pin(cancel::read(None, async { Ok(()) }));
    let Poll::Ready(Err(error)) = read.as_mut().poll(context) else { panic!("no answer") };
    refused(error.code());

    let no_timers = Builder::new_current_thread().build().unwrap();
    no_timers.block_on(async {
        refused(backend.release(ReleaseRequest::new(id)).await.unwrap_err().code());
        let error = acquire(&backend, "other").await.unwrap_err();
        assert!(error.to_string().contains("tokio runtime"), "{error}");
        refused(error.code());
        // The guard cannot release here. It says so, and leaves the lock to the clean-up.
        refused(guard.release().await.unwrap_err().code());
    });
    assert_eq!(backend.client_state().pending_releases(), 1);
    runtime().block_on(async {
        drop(acquire(&backend, "wakes the queue").await.unwrap());
        sleep(ms(200)).await;
        assert!(!backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap());
    });
}

#[tokio::test(start_paused = true)]
async fn a_renewer_whose_backend_panics_announces_the_loss() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(900).with_auto_extend(AutoExtend::new())).await.unwrap();
    backend.on_extend().panics = true;
    assert_eq!(guard.lost().await, LossReason::RenewerPanicked);
    assert_eq!(guard.valid_for(), Duration::ZERO);
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn a_release_that_meets_a_short_outage_is_tried_until_it_is_confirmed() {
    let backend = FaultyBackend::new();
    let away = |code: Option<ErrorCode>| backend.on_release().fails = code;
    for how in ["dropped", "extended", "released", "lock"] {
        for (config, code) in [
            (config(20_000), ErrorCode::ServiceUnavailable),
            (config(20_000).with_auto_extend(AutoExtend::new()), ErrorCode::ServiceUnavailable),
            // While a password is being changed.
            (config(20_000), ErrorCode::AuthFailed),
        ] {
            away(Some(code));
            match how {
                "dropped" => drop(acquire(&backend, config).await.unwrap()),
                // The outage is longer than the first TTL.
                "extended" => {
                    let mut guard = acquire(&backend, config.with_ttl(ms(100))).await.unwrap();
                    assert!(guard.extend(ms(20_000)).await.unwrap().is_extended());
                    drop(guard);
                    sleep(ms(5_000)).await;
                }
                "released" => {
                    acquire(&backend, config).await.unwrap().release().await.unwrap_err();
                }
                _ => lock(&backend, config, async |_| ()).await.unwrap(),
            }
            sleep(ms(1_200)).await;
            assert!(is_locked(&backend, KEY).await);
            away(None);
            sleep(ms(1_100)).await;
            assert!(!is_locked(&backend, KEY).await, "{how}");
            assert_eq!(backend.client_state().pending_releases(), 0);
        }
    }
    // In a long outage the clean-up tries one release at a time, and none after the lock has expired.
    away(Some(ErrorCode::ServiceUnavailable));
    for key in 0..500 {
        let config = LockConfig::new(format!("many:{key}")).with_ttl(ms(20_000));
        drop(acquire(&backend, config).await.unwrap());
    }
    backend.behaviour.releases.store(0, Ordering::Relaxed);
    sleep(ms(20_000)).await;
    let releases = backend.releases();
    assert!((15..=60).contains(&releases), "{releases}");
    sleep(ms(5_000)).await;
    backend.behaviour.releases.store(0, Ordering::Relaxed);
    sleep(ms(600_000)).await;
    let releases = backend.releases();
    assert!(releases <= 500, "{releases}");
}

#[tokio::test(start_paused = true)]
async fn a_burst_of_dropped_locks_does_not_flood_the_store() {
    const LOCKS: usize = 2_000;
    let backend = FaultyBackend::new();
    let mut most = 0;
    backend.on_release().before = ms(1);
    let mut guards = Vec::with_capacity(LOCKS);
    for key in 0..LOCKS {
        guards
            .push(try_acquire(&backend, format!("burst:{key}")).await.unwrap().acquired().unwrap());
    }
    drop(guards);
    let waiting = || backend.client_state().pending_releases();
    assert_eq!(waiting(), LOCKS);
    while waiting() > 0 {
        most = backend.behaviour.releasing.load(Ordering::Relaxed).max(most);
        sleep(ms(1)).await;
    }
    assert!((2..=8).contains(&most), "{most}");
    assert_eq!(backend.store.stored_locks(), 0);
    assert_eq!(backend.client_state().left_to_ttl(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_panics_or_is_refused_is_left_to_its_ttl_and_the_others_go_on() {
    let heard = ReportedErrors::default();
    let defaults = ClientState::default().with_on_release_error(heard.handler());
    let backend = FaultyBackend::with_client_state(defaults);
    let clean_up = backend.client_state();
    let panics = Trouble { panics: true, ..Trouble::default() };
    let refused = Trouble { fails: Some(ErrorCode::InvalidArgument), ..Trouble::default() };
    for (trouble, left) in [(panics, 20), (refused, 40)] {
        *backend.on_release() = trouble;
        for key in 0..20 {
            drop(acquire(&backend, format!("{left}:{key}")).await.unwrap());
        }
        sleep(ms(100)).await;
        assert_eq!((clean_up.pending_releases(), clean_up.left_to_ttl()), (0, left));
    }
    *backend.on_release() = Trouble::default();
    drop(acquire(&backend, KEY).await.unwrap());
    sleep(ms(100)).await;
    assert!(!is_locked(&backend, KEY).await);
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn what_is_beyond_the_bound_is_left_to_its_ttl_and_counted() {
        const BOUND: usize = 1 << 18;
        let backend = FaultyBackend::new();
        backend.on_release().before = Duration::from_secs(3_600);
        for key in 0..BOUND + 10 {
            drop(try_acquire(&backend, format!("{key}")).await.unwrap().acquired());
        }
        let clean_up = backend.client_state();
        assert_eq!((clean_up.pending_releases(), clean_up.left_to_ttl()), (BOUND, 10));
    }
}
