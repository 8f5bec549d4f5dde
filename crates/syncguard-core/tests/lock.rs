//! `lock`, `acquire`, `try_acquire` and `Locker`: waiting, giving up, and the result of the work.

use std::cell::Cell;
use std::sync::atomic::Ordering;
use std::time::Duration;

use crate::common::store::SmallStore;
use crate::common::{FaultyBackend, ReportedErrors, Trouble, is_locked, ms};
use syncguard_core::contract::AcquireRequest;
use syncguard_core::shared::ReleaseSource;
use syncguard_core::{
    AcquisitionOptions, AutoExtend, Backoff, CancellationToken, ErrorCode, Jitter, Key,
    LockBackend, LockConfig, LockError, Locker, acquire, lock, run, try_acquire,
};
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "worked-on";

fn fixed(retries: u32, delay: u64, timeout: u64) -> AcquisitionOptions {
    AcquisitionOptions::new()
        .with_max_retries(retries)
        .with_retry_delay(ms(delay))
        .with_backoff(Backoff::Fixed)
        .with_jitter(Jitter::None)
        .with_timeout(ms(timeout))
}

/// Takes the lock as another process does: without a guard here.
async fn held_elsewhere(backend: &FaultyBackend) {
    let request = AcquireRequest::new(KEY, ms(600_000)).unwrap();
    assert!(backend.store.acquire(request).await.unwrap().is_acquired());
}

#[tokio::test(start_paused = true)]
async fn the_work_runs_under_the_lock_and_its_result_comes_back_untouched() {
    let backend = FaultyBackend::new();
    let mut borrowed = Vec::new();
    let result: Result<u32, &str> = lock(&backend, KEY, async |held| {
        assert!(is_locked(&backend, KEY).await);
        borrowed.push(held.fence().get());
        Err("the work's own error")
    })
    .await
    .unwrap();
    assert_eq!(result, Err("the work's own error"));
    assert_eq!(borrowed, [1]);
    assert!(!is_locked(&backend, KEY).await);
}

/// A program's own error.
#[derive(Debug)]
enum Failed {
    Lock(LockError),
    Work,
}

impl From<LockError> for Failed {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

#[tokio::test(start_paused = true)]
async fn one_result_has_the_failures_of_the_lock_its_loss_and_those_of_the_work() {
    let backend = FaultyBackend::new();
    // Renewed without a word about it: the TTL is 30 s.
    let done: Result<u32, Failed> = run(&backend, KEY, async |held| {
        sleep(ms(600_000)).await;
        assert!(!held.is_lost());
        Ok(42)
    })
    .await;
    assert_eq!(done.expect("the lock is held"), 42);
    assert!(!is_locked(&backend, KEY).await);

    let failed: Result<(), Failed> =
        Locker::new(backend.clone()).run(KEY, async |_| Err(Failed::Work)).await;
    assert!(matches!(failed, Err(Failed::Work)), "{failed:?}");
    assert!(!is_locked(&backend, KEY).await);

    let mut steps = 0;
    let config = LockConfig::new(KEY).with_auto_extend(AutoExtend::new().with_max_hold(ms(2_500)));
    let lost: Result<(), Failed> = run(&backend, config, async |_| {
        loop {
            sleep(ms(1_000)).await;
            steps += 1;
        }
    })
    .await;
    let Err(Failed::Lock(lost)) = lost else { panic!("the lock is lost: {lost:?}") };
    assert_eq!(lost.code(), ErrorCode::LockLost);
    assert_eq!(lost.to_string(), "the lock is over: its longest hold was reached (LockLost)");
    assert!(!lost.is_retryable() && lost.key() == Key::new(KEY).ok().as_ref());
    assert_eq!(steps, 2);
    assert!(!is_locked(&backend, KEY).await);

    // A loss to a store that is away says so.
    backend.on_extend().fails = Some(ErrorCode::ServiceUnavailable);
    let lost =
        run(&backend, KEY, async |_| std::future::pending::<Result<(), LockError>>().await).await;
    let lost = lost.expect_err("the store is away");
    assert_eq!(lost.code(), ErrorCode::LockLost);
    assert!(std::error::Error::source(&lost).is_some(), "{lost:?}");

    held_elsewhere(&backend).await;
    let config = LockConfig::new(KEY).with_wait_up_to(ms(100));
    let busy: Result<(), LockError> =
        run(&backend, config, async |_| panic!("it is held elsewhere")).await;
    assert_eq!(busy.unwrap_err().code(), ErrorCode::AcquisitionTimeout);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_goes_to_the_handler_and_not_into_the_result() {
    let (backend, heard) = (FaultyBackend::new(), ReportedErrors::default());
    backend.on_release().fails = Some(ErrorCode::ServiceUnavailable);
    for (n, config) in
        [LockConfig::new("a"), LockConfig::new("b").with_auto_extend(AutoExtend::new())]
            .into_iter()
            .enumerate()
    {
        let config = config.with_on_release_error(heard.handler());
        assert_eq!(lock(&backend, config, async |_| n).await.unwrap(), n);
        let heard = heard.take();
        assert_eq!(heard.len(), 1);
        assert_eq!(heard[0].1.source, ReleaseSource::Lock);
    }
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_ridden_out_for_the_configured_time() {
    let backend = FaultyBackend::new();
    let trouble = |fails| backend.on_acquire().fails = fails;
    let config = || LockConfig::new(KEY).with_ride_out(ms(5_000));
    trouble(Some(ErrorCode::ServiceUnavailable));
    let started = Instant::now();
    let error = acquire(&backend, config()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    assert_eq!(started.elapsed(), ms(5_000), "the last attempt is made at the end");
    let asked = backend.behaviour.acquires.swap(0, Ordering::SeqCst);
    assert!((7..=16).contains(&asked), "{asked} attempts");

    // A request without an answer may have been granted: its clean-up does not touch the later grant.
    for away in [ErrorCode::ServiceUnavailable, ErrorCode::NetworkTimeout] {
        trouble(Some(away));
        let (guard, ()) = tokio::join!(acquire(&backend, config()), async {
            sleep(ms(3_000)).await;
            trouble(None);
        });
        sleep(ms(20_000)).await;
        assert!(guard.unwrap().release().await.unwrap().is_released(), "{away}");
    }

    // Without `with_ride_out`, or for an error that is not retryable, the first failure is reported.
    for (code, config) in [
        (ErrorCode::ServiceUnavailable, LockConfig::new(KEY)),
        (ErrorCode::RateLimited, LockConfig::new(KEY)),
        (ErrorCode::Internal, LockConfig::new(KEY)),
        (ErrorCode::AuthFailed, config()),
    ] {
        trouble(Some(code));
        backend.behaviour.acquires.store(0, Ordering::SeqCst);
        assert_eq!(acquire(&backend, config).await.unwrap_err().code(), code);
        assert_eq!(backend.acquires(), 1);
    }
    let token = CancellationToken::new();
    trouble(Some(ErrorCode::RateLimited));
    let cancelled = config().with_cancellation(token.clone());
    let (result, ()) = tokio::join!(acquire(&backend, cancelled), async {
        sleep(ms(700)).await;
        token.cancel();
    });
    assert_eq!(result.unwrap_err().code(), ErrorCode::Aborted);
    let error =
        acquire(&backend, LockConfig::new(KEY).with_ride_out(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
}

/// Neither a failure that comes after the time to ride out nor a grant after the TTL is the end of an outage.
#[tokio::test(start_paused = true)]
async fn each_outage_has_its_own_time_however_late_its_failures_come() {
    let backend = FaultyBackend::new();
    held_elsewhere(&backend).await;
    let away = Some(ErrorCode::ServiceUnavailable);
    let config = LockConfig::new(KEY).with_ride_out(ms(5_000)).with_wait_up_to(ms(60_000));
    let outages = async {
        for fails in [away, None, away, None] {
            backend.on_acquire().fails = fails;
            sleep(ms(4_000)).await;
        }
    };
    tokio::select! {
        result = acquire(&backend, config) => panic!("{result:?}"),
        () = outages => {}
    }
    // A lock that stays held is no outage.
    let config = LockConfig::new(KEY).with_ride_out(ms(5_000)).with_wait_up_to(ms(500));
    let ends = timeout(ms(1_000), acquire(&backend, config));
    let error = ends.await.expect("the limit ends the wait").unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);

    let fails_late = Trouble { before: ms(2_000), fails: away, ..Trouble::default() };
    let grants_late = Trouble { after: ms(150), ..Trouble::default() };
    for (trouble, ttl) in [(fails_late, ms(30_000)), (grants_late, ms(100))] {
        *backend.on_acquire() = trouble;
        let config = LockConfig::new("late").with_ttl(ttl).with_ride_out(ms(1_000));
        let ends = timeout(ms(12_000), acquire(&backend, config));
        assert!(ends.await.expect("the second failure is reported").is_err());
    }
}

#[tokio::test(start_paused = true)]
async fn a_timeout_error_says_when_the_lock_is_free_and_what_to_set() {
    let backend = FaultyBackend::new();
    let request = AcquireRequest::new(KEY, ms(20_000)).unwrap();
    assert!(backend.store.acquire(request).await.unwrap().is_acquired());
    let started = Instant::now();
    let error =
        acquire(&backend, LockConfig::new(KEY).with_wait_up_to(ms(8_000))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(started.elapsed() <= ms(8_000));
    let told = error.message();
    assert!(told.contains("the limit is 8s (with_wait_up_to)"), "{told}");
    // 20 s plus the tolerance of 1 s, minus the time waited.
    assert!(
        told.contains("without an extend it is free in 13") || told.contains("in 14"),
        "{told}"
    );
    let error =
        acquire(&backend, LockConfig::new(KEY).with_wait_up_to(Duration::ZERO)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidArgument);
}

#[tokio::test(start_paused = true)]
async fn an_acquire_that_lands_late_is_released() {
    let backend = FaultyBackend::new();
    // The request reaches the store after the first releases.
    *backend.on_acquire() = Trouble { before: ms(700), reply_lost: true, ..Trouble::default() };
    let config = LockConfig::new(KEY).with_ttl(ms(60_000)).with_acquisition(fixed(0, 1, 50));
    let error = acquire(&backend, config).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::NetworkTimeout, "no answer said that the lock is held");
    assert!(error.is_outcome_unknown());
    sleep(ms(800)).await;
    assert!(!is_locked(&backend, KEY).await);
}

#[tokio::test(start_paused = true)]
async fn the_retries_are_counted_and_the_time_is_limited() {
    let backend = FaultyBackend::new();
    held_elsewhere(&backend).await;
    let attempts = || backend.behaviour.acquires.swap(0, Ordering::Relaxed);
    attempts();

    let started = Instant::now();
    let config = LockConfig::new(KEY).with_acquisition(fixed(3, 100, 1));
    let error = acquire(&backend, config.with_wait_up_to(ms(60_000))).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(error.to_string().contains("4 attempts"), "{error}");
    assert_eq!((attempts(), started.elapsed()), (4, ms(300)));

    let started = Instant::now();
    let config = LockConfig::new(KEY).with_acquisition(fixed(1_000, 100, 1_000));
    let error = acquire(&backend, config).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(
        started.elapsed() <= ms(1_001) && started.elapsed() >= ms(950),
        "{:?}",
        started.elapsed()
    );
    assert!(attempts() >= 10, "the last attempts come close to the limit");

    // Without a limit on the attempts, the time limit ends the wait.
    let config = LockConfig::new(KEY).with_acquisition(fixed(u32::MAX, 100, 1_000));
    let error = acquire(&backend, config).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(error.message().contains("; the limit is 1s (with_wait_up_to)"), "{error}");
    attempts();

    // The defaults: 100 ms, doubling up to 500 ms, half of each pause random, five seconds.
    let started = Instant::now();
    assert!(acquire(&backend, KEY).await.is_err());
    assert!(started.elapsed() <= ms(5_001));
    let attempts = attempts();
    assert!((10..=30).contains(&attempts), "{attempts}");
}

#[tokio::test(start_paused = true)]
async fn the_token_ends_the_waiting_at_once_but_not_the_release() {
    let backend = FaultyBackend::new();
    let holder = acquire(&backend, LockConfig::new(KEY).with_ttl(ms(60_000))).await.unwrap();
    let token = CancellationToken::new();
    let started = Instant::now();
    let config = LockConfig::new(KEY)
        .with_cancellation(token.clone())
        .with_acquisition(fixed(9, 500, 5_000));
    let (waiting, ()) = tokio::join!(acquire(&backend, config.clone()), async {
        sleep(ms(70)).await;
        token.cancel();
    });
    assert_eq!(waiting.unwrap_err().code(), ErrorCode::Aborted);
    assert!(started.elapsed() <= ms(72));
    let acquires = backend.acquires();
    assert_eq!(try_acquire(&backend, config).await.unwrap_err().code(), ErrorCode::Aborted);
    assert_eq!(backend.acquires(), acquires, "nothing is sent");
    let _ = holder.release().await.unwrap();

    // A token that fires while the work runs does not stop the release.
    let token = CancellationToken::new();
    let config = LockConfig::new(KEY).with_cancellation(token.clone());
    lock(&backend, config, async |_| token.cancel()).await.unwrap();
    assert!(!is_locked(&backend, KEY).await);
}

#[tokio::test(start_paused = true)]
async fn a_locker_is_configured_once_and_varied_by_its_clones() {
    let backend = FaultyBackend::new();
    let locker =
        Locker::new(backend.clone()).with_ttl(ms(700)).with_acquisition(fixed(0, 1, 1_000));
    let guard = locker.acquire("one").await.unwrap();
    assert_eq!(guard.valid_for(), ms(700));
    assert!(locker.try_acquire("one").await.unwrap().is_busy());
    assert_eq!(guard.valid_for(), ms(700), "try_acquire does not wait");
    assert!(locker.lock("one", async |_| ()).await.is_err());
    let longer = locker.clone().with_ttl(ms(900));
    longer.lock("two", async |held| assert_eq!(held.valid_for(), ms(900))).await.unwrap();
    assert_eq!(locker.backend().store.stored_locks(), 1);
    let printed = format!("{locker:?}");
    assert!(printed.contains("small"), "{printed}");
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_reported_before_anything_is_sent() {
    let backend = FaultyBackend::new();
    let bad = [
        (LockConfig::new(""), "1 to 512 bytes"),
        (LockConfig::new("x".repeat(513)), "at most 512"),
        (LockConfig::new("nul\0"), "NUL"),
        (LockConfig::new(KEY).with_ttl(Duration::ZERO), "1 ms"),
        (LockConfig::new(KEY).with_ttl(Duration::from_micros(999)), "1 ms"),
        (LockConfig::new(KEY).with_ttl(Duration::MAX), "100 years"),
        (LockConfig::new(KEY).with_acquisition(fixed(1, 0, 100)), "retry delay"),
        (LockConfig::new(KEY).with_acquisition(fixed(1, 1, 0)), "acquisition timeout"),
        (
            LockConfig::new(KEY)
                .with_acquisition(AcquisitionOptions::new().with_timeout(Duration::MAX)),
            "100 years",
        ),
        (LockConfig::new(KEY).with_dispose_timeout(Duration::ZERO), "dispose timeout"),
        (LockConfig::new(KEY).with_min_hold(Duration::ZERO), "1 ms to 100 years"),
        (LockConfig::new(KEY).with_min_hold(Duration::from_micros(999)), "1 ms to 100 years"),
        (LockConfig::new(KEY).with_min_hold(Duration::MAX), "1 ms to 100 years"),
        (
            LockConfig::new(KEY).with_auto_extend(AutoExtend::new().with_max_hold(Duration::ZERO)),
            "cap on the hold",
        ),
        (
            LockConfig::new(KEY).with_auto_extend(AutoExtend::new().with_max_hold(Duration::MAX)),
            "100 years",
        ),
    ];
    for (config, allowed) in bad {
        // Only the first bad argument is reported.
        for config in [config.clone(), config.with_ttl(Duration::ZERO)] {
            let error = lock(&backend, config, async |_| ()).await.unwrap_err();
            assert_eq!(error.code(), ErrorCode::InvalidArgument);
            assert!(error.to_string().contains(allowed), "{error} should say {allowed:?}");
        }
    }
    assert_eq!(backend.acquires(), 0);
    // Without retries, the delay is not checked.
    let once = LockConfig::new(KEY).with_acquisition(fixed(0, 0, 100));
    lock(&backend, once, async |_| ()).await.unwrap();
}

/// These forms must compile. The documentation of [`lock`] has the one of generic code.
#[tokio::test]
async fn the_future_of_lock_is_send_if_its_work_is() {
    fn is_send<T: Send>(future: T) -> T {
        future
    }

    let backend = SmallStore::new();
    let text = String::from("borrowed across an await");
    let length = is_send(lock(&backend, KEY, async |_| {
        tokio::task::yield_now().await;
        text.len()
    }))
    .await
    .unwrap();
    assert_eq!(length, text.len());

    // Work may be not `Send` if it runs on the task that made it.
    let cell = Cell::new(1);
    lock(&backend, KEY, async |_| cell.set(cell.get() + 1)).await.unwrap();
    assert_eq!(cell.get(), 2);
}
