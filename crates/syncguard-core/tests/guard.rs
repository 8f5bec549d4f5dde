//! Guards: release, drop, extend, validity and auto-extend.

use std::future::{pending, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{FaultyBackend, ReportedErrors, Trouble, is_locked, ms, runtime, settle};
use syncguard_core::shared::{ClientState, ReleaseSource};
use syncguard_core::{
    AutoExtend, ErrorCode, LockConfig, LossReason, ReleaseResult, acquire, try_acquire,
};
use tokio::runtime::{Builder, Handle};
use tokio::time::{Instant, advance, sleep, timeout};

const KEY: &str = "guarded";

fn config(ttl: u64) -> LockConfig {
    LockConfig::new(KEY).with_ttl(ms(ttl))
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_guard_sends_one_release_and_no_renewal_after_it() {
    for config in [config(300), config(300).with_auto_extend(AutoExtend::new())] {
        for end in ["released", "dropped", "dropped outside the runtime"] {
            let backend = FaultyBackend::new();
            let guard = acquire(&backend, config.clone()).await.unwrap();
            assert!(is_locked(&backend, KEY).await);
            match end {
                "released" => assert_eq!(guard.release().await.unwrap(), ReleaseResult::Released),
                "dropped" => drop(guard),
                _ => std::thread::spawn(move || drop(guard)).join().unwrap(),
            }
            settle().await;
            assert!(!is_locked(&backend, KEY).await, "{end}");
            sleep(ms(3_000)).await;
            assert_eq!((backend.releases(), backend.extends()), (1, 0), "{end}");
        }
    }
}

#[test]
fn a_guard_that_outlives_its_runtime_drops_without_a_panic() {
    let first = runtime();
    let backend = FaultyBackend::new();
    let plain = first.block_on(acquire(&backend, "plain")).unwrap();
    let config = LockConfig::new("kept").with_auto_extend(AutoExtend::new());
    let mut kept = first.block_on(acquire(&backend, config)).unwrap();
    drop(first);
    drop(plain);
    let other = runtime();
    let error = other.block_on(kept.extend(ms(100))).unwrap_err();
    assert_eq!(error.code(), ErrorCode::Internal);
    drop(kept);
    // The next acquire has a runtime, which gives both back.
    other.block_on(async {
        acquire(&backend, "another").await.unwrap().release().await.unwrap();
        settle().await;
        assert!(!is_locked(&backend, "plain").await && !is_locked(&backend, "kept").await);
    });
}

#[tokio::test(start_paused = true)]
async fn errors_of_dropped_guards_reach_the_handler_of_the_lock_or_else_of_the_backend() {
    let (of_backend, of_lock) = (ReportedErrors::default(), ReportedErrors::default());
    let defaults = ClientState::default().with_on_release_error(of_backend.handler());
    let backend = FaultyBackend::with_client_state(defaults);
    backend.on_release().fails = Some(ErrorCode::ServiceUnavailable);

    drop(acquire(&backend, KEY).await.unwrap());
    settle().await;
    let heard = of_backend.take();
    assert_eq!(heard.len(), 1);
    assert_eq!(heard[0].0.code(), ErrorCode::ServiceUnavailable);
    assert_eq!(heard[0].1.key.expose(), KEY);
    assert_eq!(heard[0].1.source, ReleaseSource::Drop);

    let config = LockConfig::new("other").with_on_release_error(of_lock.handler());
    drop(acquire(&backend, config).await.unwrap());
    // Not at once: while the store fails, the clean-up tries one lock at a time.
    sleep(ms(2_000)).await;
    assert_eq!(of_lock.take().len(), 1);
    assert!(of_backend.take().is_empty());

    // So does the error of a release whose caller has gone.
    backend.on_release().before = ms(100);
    let config = LockConfig::new("kept").with_on_release_error(of_lock.handler());
    let guard = acquire(&backend, config.with_auto_extend(AutoExtend::new())).await.unwrap();
    assert!(timeout(ms(10), guard.release()).await.is_err());
    sleep(ms(5_000)).await;
    assert_eq!(of_lock.take().len(), 1, "the first failure alone");
}

#[tokio::test(start_paused = true)]
async fn work_ends_with_its_lock_and_takes_no_step_after_the_loss() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(300)).await.unwrap();
    let held = guard.held();
    assert_eq!(held.or_lost(async { 7 }).await, Ok(7));

    // Another wake-up finds the lock over: the work would be ready, and is not asked.
    let steps = AtomicU32::new(0);
    let mut work = pin!(held.or_lost(poll_fn(|_| {
        let is_first = steps.fetch_add(1, Ordering::Relaxed) == 0;
        if is_first { Poll::Pending } else { Poll::Ready(()) }
    })));
    let mut poll = || work.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    advance(ms(300)).await;
    assert_eq!(poll(), Poll::Ready(Err(LossReason::Expired)));
    assert_eq!(steps.load(Ordering::Relaxed), 1);
    assert_eq!(held.or_lost(async { unreachable!() }).await, Err::<(), _>(LossReason::Expired));

    let guard = acquire(&backend, LockConfig::new("other")).await.unwrap();
    let held = guard.held();
    drop(guard);
    let released = held.or_lost(pending::<()>()).await.unwrap_err();
    assert_eq!(released, LossReason::Released);
    assert_eq!(released.to_string(), "the lock is over: its holder released it");
}

#[tokio::test(start_paused = true)]
async fn the_dispose_timeout_bounds_a_release() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(60_000).with_dispose_timeout(ms(20))).await.unwrap();
    backend.on_release().before = ms(500);
    let started = Instant::now();
    let error = guard.release().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout);
    assert!(error.is_outcome_unknown());
    assert_eq!(started.elapsed(), ms(20));
    // The release still arrives.
    sleep(ms(500)).await;
    assert!(!is_locked(&backend, KEY).await);
}

#[tokio::test(start_paused = true)]
async fn validity_counts_from_before_the_request_was_sent() {
    let backend = FaultyBackend::new();
    *backend.on_acquire() = Trouble { before: ms(30), after: ms(40), ..Trouble::default() };
    let mut guard = acquire(&backend, config(1_000)).await.unwrap();
    assert_eq!(guard.valid_for(), ms(930));

    *backend.on_extend() = Trouble { after: ms(100), ..Trouble::default() };
    assert!(guard.extend(ms(2_000)).await.unwrap().is_extended());
    assert_eq!(guard.valid_for(), ms(1_900));

    // An extend replaces the TTL, so it can make it shorter.
    let before = guard.expires_at();
    *backend.on_extend() = Trouble::default();
    assert!(guard.extend(ms(500)).await.unwrap().is_extended());
    assert!(guard.valid_for() == ms(500) && guard.expires_at() < before);

    advance(ms(500)).await;
    assert_eq!(guard.valid_for(), Duration::ZERO);
    assert!(guard.is_lost());
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_extend_only_the_shorter_ttl_counts() {
    let backend = FaultyBackend::new();
    let mut guard = acquire(&backend, config(10_000)).await.unwrap();
    // The store shortens the lock, but the answer is lost.
    backend.on_extend().reply_lost = true;
    assert!(guard.extend(ms(500)).await.is_err());
    assert_eq!(guard.valid_for(), ms(500));
    assert!(guard.extend(ms(20_000)).await.is_err());
    assert_eq!(guard.valid_for(), ms(500));
}

#[tokio::test(start_paused = true)]
async fn the_loss_of_a_shortened_lock_is_announced_in_time() {
    let backend = FaultyBackend::new();
    let mut guard = acquire(&backend, config(60_000)).await.unwrap();
    let lost = guard.lost_token();
    sleep(ms(1)).await;
    assert!(guard.extend(ms(500)).await.unwrap().is_extended());
    sleep(ms(499)).await;
    assert!(!lost.is_cancelled());
    sleep(ms(2)).await;
    assert!(lost.is_cancelled());
}

/// The same for a lock that the expiry thread watches, because `lost_token` is called outside a runtime.
#[test]
fn the_expiry_thread_announces_a_shortened_lock_in_time() {
    let runtime = runtime();
    let backend = FaultyBackend::new();
    let mut guard = runtime.block_on(acquire(&backend, config(60_000))).unwrap();
    let lost = guard.lost_token();
    std::thread::sleep(ms(10));
    assert!(runtime.block_on(guard.extend(ms(100))).unwrap().is_extended());
    let (sender, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        let runtime = Builder::new_current_thread().build().unwrap();
        runtime.block_on(lost.cancelled());
        sender.send(()).unwrap();
    });
    heard.recv_timeout(ms(30_000)).expect("the loss is heard long before the first TTL is over");
}

#[tokio::test(start_paused = true)]
async fn the_lost_token_fires_on_expiry_on_release_and_not_before() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(100)).await.unwrap();
    let token = guard.lost_token();
    sleep(ms(95)).await;
    assert!(!token.is_cancelled());
    sleep(ms(10)).await;
    assert!(token.is_cancelled());

    let guard = acquire(&backend, LockConfig::new("second")).await.unwrap();
    let (token, lost, held) = (guard.lost_token(), guard.lost(), guard.held());
    settle().await;
    assert!(!token.is_cancelled() && !held.is_lost());
    guard.lost_token().cancel();
    settle().await;
    assert!(!token.is_cancelled() && !held.is_lost(), "cancelling a token does not end the lock");
    let _ = guard.release().await.unwrap();
    assert_eq!(lost.await, LossReason::Released);
    assert!(token.is_cancelled() && held.is_lost());
    assert_eq!(held.valid_for(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn auto_extend_keeps_a_lock_far_beyond_its_ttl() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(300).with_auto_extend(AutoExtend::new())).await.unwrap();
    for _ in 0..100 {
        sleep(ms(250)).await;
        assert!(guard.valid_for() >= ms(150), "{:?}", guard.valid_for());
        assert!(try_acquire(&backend, KEY).await.unwrap().is_busy());
    }
    let extends = backend.extends();
    assert!((240..=260).contains(&extends), "a third of the TTL each: {extends}");
    assert_eq!(guard.release().await.unwrap(), ReleaseResult::Released);
    sleep(ms(5_000)).await;
    assert_eq!(backend.extends(), extends, "no renewal after the release");
    assert_eq!(backend.releases(), 1);
}

/// The kernel tells when the machine was asleep, so that the task need not look.
#[cfg(target_os = "linux")]
#[tokio::test(start_paused = true)]
async fn a_holder_sleeps_from_one_renewal_to_the_next() {
    let parks = async || {
        let before = Handle::current().metrics().worker_park_count(0);
        sleep(ms(300_000)).await;
        Handle::current().metrics().worker_park_count(0) - before
    };
    let without = parks().await;
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(1_000_000).with_auto_extend(AutoExtend::new())).await;
    // A timer far away wakes the runtime a few times.
    let with = parks().await;
    assert!(with <= without + 4, "{with} times, and {without} without a lock");
    assert!(guard.unwrap().release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn auto_extend_is_not_stopped_by_an_attempt_that_hangs() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(900).with_auto_extend(AutoExtend::new())).await.unwrap();
    backend.on_extend().before = Duration::from_secs(3_600);
    sleep(ms(400)).await;
    backend.on_extend().before = Duration::ZERO;
    sleep(ms(2_000)).await;
    assert!(!guard.is_lost());

    backend.on_extend().before = Duration::from_secs(3_600);
    let token = guard.lost_token();
    timeout(ms(901), token.cancelled()).await.expect("the loss is noticed in time");
}

/// A store that is there again 1.6 s before the end of a lock of 30 s keeps it, whatever has failed before, and however long
/// each attempt took.
#[tokio::test(start_paused = true)]
async fn renewals_are_tried_until_the_deadline_whatever_fails() {
    use ErrorCode::{
        Aborted, AuthFailed, Internal, InvalidArgument, NetworkTimeout, RateLimited,
        ServiceUnavailable,
    };
    let quick = [ServiceUnavailable, RateLimited, AuthFailed, InvalidArgument, Internal, Aborted];
    let slow = [(NetworkTimeout, 5_000, 4), (NetworkTimeout, 10_000, 3)];
    for (code, takes, tries) in quick.map(|code| (code, 0, 19)).into_iter().chain(slow) {
        let backend = FaultyBackend::new();
        let guard = acquire(&backend, config(30_000).with_auto_extend(AutoExtend::new()));
        let guard = guard.await.unwrap();
        let trouble = Trouble { fails: Some(code), before: ms(takes), ..Trouble::default() };
        *backend.on_extend() = trouble;
        sleep(ms(28_400)).await;
        assert_eq!(backend.extends(), tries, "{code} {takes}");
        assert_eq!(guard.extend_error().map(|error| error.code()), Some(code));
        *backend.on_extend() = Trouble::default();
        sleep(ms(10_000)).await;
        assert!(guard.extend_error().is_none());
        assert!(!guard.is_lost() && guard.valid_for() > ms(19_000), "{code} {takes}");

        *backend.on_extend() = trouble;
        let since = Instant::now();
        assert_eq!(guard.lost().await, LossReason::Expired);
        assert!((ms(19_000)..=ms(30_000)).contains(&since.elapsed()), "{:?}", since.elapsed());
        assert_eq!(guard.extend_error().map(|error| error.code()), Some(code));
    }
}

/// Each attempt has half of the time that is left, so the last ones are cut off before a store can answer.
#[tokio::test(start_paused = true)]
async fn what_the_store_said_last_is_why_a_lock_was_lost() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(900).with_auto_extend(AutoExtend::new())).await.unwrap();
    backend.on_extend().fails = Some(ErrorCode::AuthFailed);
    sleep(ms(400)).await;
    backend.on_extend().before = Duration::from_secs(3_600);
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert_eq!(guard.extend_error().map(|error| error.code()), Some(ErrorCode::AuthFailed));
}

/// The first renewal that learns it ends the hold, and so does an extend of the program.
#[tokio::test(start_paused = true)]
async fn an_answer_that_the_record_is_lost_ends_the_lock_at_once() {
    for is_renewed in [false, true] {
        let backend = FaultyBackend::new();
        let plan = if is_renewed { Some(AutoExtend::new()) } else { None };
        let config = plan.into_iter().fold(config(30_000), LockConfig::with_auto_extend);
        let mut guard = acquire(&backend, config).await.unwrap();
        let fails = Some(ErrorCode::Internal);
        *backend.on_extend() = Trouble { fails, loses_record: true, ..Trouble::default() };
        let (began, lost) = (Instant::now(), guard.lost());
        if !is_renewed {
            let error = guard.extend(ms(30_000)).await.unwrap_err();
            assert!(error.is_record_lost() && format!("{error:?}").contains("record_lost"));
        }
        assert_eq!(lost.await, LossReason::RecordLost);
        let [from, to] = if is_renewed { [9_680, 10_000] } else { [0, 0] };
        assert!((ms(from)..=ms(to)).contains(&began.elapsed()));
        assert!(guard.extend_error().unwrap().is_record_lost());
        sleep(ms(60_000)).await;
        assert_eq!(backend.extends(), 1, "a lost lock is not extended");
        assert!(!guard.extend(ms(30_000)).await.unwrap().is_extended());
    }
}

#[tokio::test(start_paused = true)]
async fn the_cap_on_the_hold_ends_it() {
    let backend = FaultyBackend::new();
    let plan = AutoExtend::new().with_max_hold(ms(2_000));
    let started = Instant::now();
    let guard = acquire(&backend, config(300).with_auto_extend(plan)).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::MaxHold);
    // tokio's timers are exact to a millisecond.
    assert!(started.elapsed() >= ms(2_000) && started.elapsed() <= ms(2_002));
    // The store frees the lock after its tolerance at the latest.
    sleep(ms(1_001)).await;
    assert!(!is_locked(&backend, KEY).await);
}

#[tokio::test(start_paused = true)]
async fn a_manual_extend_sets_the_ttl_of_later_renewals() {
    let backend = FaultyBackend::new();
    let mut guard =
        acquire(&backend, config(300).with_auto_extend(AutoExtend::new())).await.unwrap();
    assert!(guard.extend(ms(6_000)).await.unwrap().is_extended());
    assert_eq!(guard.valid_for(), ms(6_000));
    let extends = backend.extends();
    sleep(ms(10_100)).await;
    assert_eq!(backend.extends() - extends, 5);
    assert!(guard.valid_for() > ms(3_000));
}

#[tokio::test(start_paused = true)]
async fn a_release_does_not_wait_for_a_renewal_that_hangs() {
    let backend = FaultyBackend::new();
    let guard = acquire(&backend, config(900).with_auto_extend(AutoExtend::new())).await.unwrap();
    backend.on_extend().before = ms(400);
    sleep(ms(310)).await; // a renewal is under way
    let started = Instant::now();
    assert!(guard.release().await.unwrap().is_released());
    assert!(started.elapsed() < ms(5));
    // The late renewal does not bring back the lock.
    sleep(ms(1_000)).await;
    assert!(!is_locked(&backend, KEY).await);
}
