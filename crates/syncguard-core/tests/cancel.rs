//! Single operations whose caller goes, by drop or by token, at every point.

use std::future::Future as _;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use crate::common::{FaultyBackend, Trouble, is_locked, ms, runtime};
use syncguard_core::authoring::cancel;
use syncguard_core::contract::{AcquireRequest, ExtendRequest, ReleaseRequest};
use syncguard_core::{
    AutoExtend, CancellationToken, ErrorCode, LockBackend, LockConfig, Timestamp, acquire, lock,
};
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "cancelled";
const LONG: Duration = Duration::from_secs(3_600);

fn slow() -> Trouble {
    Trouble { before: ms(20), after: ms(20), ..Trouble::default() }
}

fn request() -> AcquireRequest {
    AcquireRequest::new(KEY, LONG).unwrap()
}

#[tokio::test(start_paused = true)]
async fn an_acquire_dropped_before_its_first_poll_is_never_sent() {
    let backend = FaultyBackend::new();
    drop(backend.acquire(request()));
    sleep(ms(100)).await;
    assert_eq!(backend.acquires(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_clean_up_tries_again_when_its_release_fails() {
    let backend = FaultyBackend::new();
    backend.on_acquire().reply_lost = true;
    backend.on_release().fails = Some(ErrorCode::ServiceUnavailable);
    assert!(backend.acquire(request()).await.unwrap_err().is_outcome_unknown());
    sleep(ms(500)).await;
    assert!(is_locked(&backend, KEY).await);
    backend.on_release().fails = None;
    sleep(ms(1_000)).await;
    assert!(!is_locked(&backend, KEY).await);
    let releases = backend.releases();
    sleep(LONG).await;
    assert_eq!(backend.releases(), releases, "no release follows a confirmed one");
}

#[tokio::test(start_paused = true)]
async fn the_clean_up_ends_when_it_is_in_vain() {
    let fails = |code| Trouble { fails: Some(code), ..Trouble::default() };
    let away = fails(ErrorCode::ServiceUnavailable);
    let reply_lost = Trouble { reply_lost: true, ..Trouble::default() };
    for (acquire, release, ttl, after, releases) in [
        // The store never answers: about one a second, for ten minutes after the lock is over.
        (reply_lost, away, ms(2_000), ms(603_001), 600..=1_300),
        // The request is lost before it reaches the store, but the client cannot know that.
        (fails(ErrorCode::NetworkTimeout), Trouble::default(), LONG, ms(60_000), 8..=20),
        // A known failure needs no clean-up.
        (away, Trouble::default(), LONG, ms(1_000), 0..=0),
    ] {
        let backend = FaultyBackend::new();
        *backend.on_acquire() = acquire;
        *backend.on_release() = release;
        let error = backend.acquire(AcquireRequest::new(KEY, ttl).unwrap()).await.unwrap_err();
        assert_eq!(error.is_outcome_unknown(), *releases.end() > 0, "{acquire:?}");
        sleep(after).await;
        let sent = backend.releases();
        assert!(releases.contains(&sent), "{acquire:?}: {sent}");
        sleep(LONG).await;
        assert_eq!(backend.releases(), sent, "{acquire:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_release_or_an_extend_that_was_sent_takes_effect() {
    let backend = FaultyBackend::new();
    let lock = backend.acquire(request()).await.unwrap().acquired().unwrap();
    *backend.on_extend() = slow();
    *backend.on_release() = slow();

    let extend = backend.extend(ExtendRequest::new(lock.lock_id, LONG * 2).unwrap());
    assert!(timeout(ms(5), extend).await.is_err());
    sleep(ms(100)).await;
    let info =
        syncguard_core::diagnostics::get_by_id(&backend, lock.lock_id).await.unwrap().unwrap();
    assert!(info.expires_at > lock.expires_at);

    let token = CancellationToken::new();
    let release =
        backend.release(ReleaseRequest::new(lock.lock_id).with_cancellation(token.clone()));
    let (result, ()) = tokio::join!(release, async {
        sleep(ms(5)).await;
        token.cancel();
    });
    let error = result.unwrap_err();
    assert_eq!(error.code(), ErrorCode::Aborted);
    assert!(error.is_outcome_unknown());
    sleep(ms(100)).await;
    assert!(!is_locked(&backend, KEY).await);
}

#[tokio::test(start_paused = true)]
async fn a_token_that_has_fired_stops_everything_before_it_starts() {
    let token = CancellationToken::new();
    cancel::check(Some(&token)).unwrap();
    token.cancel();
    assert_eq!(cancel::check(Some(&token)).unwrap_err().code(), ErrorCode::Aborted);
    let started = std::sync::atomic::AtomicBool::new(false);
    let started: &'static std::sync::atomic::AtomicBool = Box::leak(Box::new(started));
    let result = cancel::finish(Some(&token), async {
        started.store(true, Ordering::Relaxed);
        Ok(())
    });
    assert!(!result.await.unwrap_err().is_outcome_unknown());
    assert!(!started.load(Ordering::Relaxed));
}

/// The rest of the operation is dropped without a live runtime.
#[test]
fn without_a_runtime_nothing_panics() {
    let runtime = runtime();
    let mut call = Box::pin(cancel::finish(None, std::future::pending::<Result<(), _>>()));
    let mut context = Context::from_waker(Waker::noop());
    {
        let _here = runtime.enter();
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    drop(runtime);
    drop(call);
}

/// These futures become part of the callers' futures and tasks, so they must be small.
#[tokio::test]
async fn the_future_of_a_large_operation_is_small() {
    let large = async || {
        let large = [1_u8; 10_000];
        tokio::task::yield_now().await;
        Ok(usize::from(large[9_999]))
    };
    let future = cancel::finish(None, large());
    assert!(size_of_val(&future) < 512, "{}", size_of_val(&future));
    assert_eq!(future.await.unwrap(), 1);
}

/// A program waits for `drained` before it ends. All locks that it has given up before are then free.
#[tokio::test(start_paused = true)]
async fn when_all_is_drained_no_lock_is_left() {
    let auto = || LockConfig::new(KEY).with_auto_extend(AutoExtend::new());
    for config in [|| LockConfig::new(KEY), auto] {
        let backend = FaultyBackend::new();
        *backend.on_acquire() = slow();
        *backend.on_release() = slow();
        let drained = async |how: &str| {
            let state = backend.client_state();
            assert!(state.pending_releases() > 0, "{how}: nothing is counted");
            assert_eq!(state.drained(Duration::from_secs(5)).await, 0, "{how}");
            assert!(!is_locked(&backend, KEY).await, "{how}: the lock is left");
        };
        for given_up_after in [1, 19, 21, 39] {
            assert!(timeout(ms(given_up_after), acquire(&backend, config())).await.is_err());
            drained("an acquire is dropped").await;

            let token = CancellationToken::new();
            let cancelled = acquire(&backend, config().with_cancellation(token.clone()));
            let (result, ()) = tokio::join!(cancelled, async {
                sleep(ms(given_up_after)).await;
                token.cancel();
            });
            assert_eq!(result.unwrap_err().code(), ErrorCode::Aborted);
            drained("an acquire is cancelled").await;

            let guard = acquire(&backend, config()).await.unwrap();
            assert!(timeout(ms(given_up_after), guard.release()).await.is_err());
            drained("a release is dropped").await;

            let work = lock(&backend, config(), async |_held| sleep(LONG).await);
            assert!(timeout(ms(40 + given_up_after), work).await.is_err());
            drained("work is dropped").await;

            let short = lock(&backend, config(), async |_held| ());
            assert!(timeout(ms(40 + given_up_after), short).await.is_err());
            drained("work is dropped while its lock is given back").await;
        }
        drop(acquire(&backend, config()).await.unwrap());
        drained("a guard is dropped").await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_ends_in_time_and_counts_the_locks_that_are_left() {
    let backend = FaultyBackend::new();
    let state = backend.client_state();
    assert_eq!(state.drained(Duration::ZERO).await, 0, "nothing was given up");
    backend.on_release().before = LONG;
    drop(acquire(&backend, KEY).await.unwrap());
    let started = Instant::now();
    assert_eq!(state.drained(ms(300)).await, 1);
    assert!(started.elapsed() >= ms(300) && started.elapsed() < ms(400), "{:?}", started.elapsed());
}

/// Without a runtime no lock can be given back. The drain says so at once and does not panic.
#[test]
fn a_drain_outside_a_runtime_answers_at_once() {
    let backend = FaultyBackend::new();
    let runtime = runtime();
    backend.on_acquire().after = LONG;
    runtime.block_on(async { assert!(timeout(ms(50), backend.acquire(request())).await.is_err()) });
    let state = backend.client_state().clone();
    let mut drained = Box::pin(state.drained(LONG));
    let polled = drained.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(polled, Poll::Ready(1));
    // An operation without its caller ends with its runtime, and its lock is left to the clean-up.
    drop(runtime);
    assert_eq!(state.pending_releases(), 1);
    // A drain in another runtime gives it back.
    assert_eq!(crate::common::runtime().block_on(state.drained(ms(10_000))), 0);
    assert_eq!(backend.store.stored_locks(), 0);
}

/// A later send can have an earlier deadline: the clock of the store was set back, or is known better by then.
#[tokio::test]
async fn the_latest_deadline_of_all_sends_counts() {
    let (caller, millis) = (cancel::Caller::new(None), |it| Timestamp::from_millis(it).unwrap());
    assert_eq!(caller.void_after(), None);
    for deadline in [5, 9, 7] {
        caller.sends(millis(deadline), ms(1));
    }
    assert_eq!(caller.void_after(), Some(millis(9)));
}
