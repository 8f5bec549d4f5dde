//! The queue in which the callers of one process wait.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::store::SmallStore;
use crate::common::{FaultyBackend, is_locked, ms, runtime, settle};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, KeySignal, KeyWatch, ReleaseRequest, WatchRequest,
};
use syncguard_core::{
    AcquisitionOptions, AutoExtend, Backoff, CancellationToken, Contention, DynBackend, ErrorCode,
    Fence, Jitter, LockBackend, LockConfig, LockError, LockGuard, LossReason, acquire, forward,
    lock, try_acquire,
};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const KEY: &str = "waited-for";
const LONG: Duration = Duration::from_secs(600);

fn patient() -> LockConfig {
    LockConfig::new(KEY)
        .with_ttl(LONG)
        .with_acquisition(AcquisitionOptions::new().with_timeout(LONG))
}

/// Polls that come too late to explain a grant.
fn hardly_polling() -> AcquisitionOptions {
    AcquisitionOptions::new()
        .with_timeout(LONG)
        .with_retry_delay(Duration::from_secs(300))
        .with_jitter(Jitter::None)
}

/// Takes the lock as another process does: without a guard here.
async fn held_elsewhere<B: LockBackend>(backend: &B, ttl: Duration) -> ReleaseRequest {
    let request = AcquireRequest::new(KEY, ttl).unwrap();
    let release = ReleaseRequest::new(request.lock_id);
    assert!(backend.acquire(request).await.unwrap().is_acquired());
    release
}

/// Starts a task that waits for the lock.
async fn waiter<B: LockBackend>(backend: &B, config: LockConfig) -> JoinHandle<LockGuard<B>> {
    let backend = backend.clone();
    let task = tokio::spawn(async move { acquire(&backend, config).await.unwrap() });
    settle().await;
    task
}

/// Starts a task that tries for the lock, and gives it back.
fn trying<B: LockBackend>(backend: &B, config: LockConfig) -> JoinHandle<Result<(), LockError>> {
    let backend = backend.clone();
    tokio::spawn(async move { acquire(&backend, config).await.map(drop) })
}

#[tokio::test(start_paused = true)]
async fn turns_come_in_order_and_cost_one_acquire_each() {
    const WAITERS: usize = 50;
    let backend = FaultyBackend::new();
    let held = acquire(&backend, patient()).await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        // The clones of a backend share one queue, even if they are wrapped.
        let task = if number % 2 == 0 {
            trying(&backend, patient())
        } else {
            trying(&DynBackend::new(Arc::new(backend.clone())), patient())
        };
        let served = Arc::clone(&served);
        tasks.push(tokio::spawn(async move {
            task.await.unwrap().unwrap();
            served.lock().unwrap().push(number);
        }));
        settle().await;
    }
    backend.behaviour.acquires.store(0, Ordering::Relaxed);
    let started = Instant::now();
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..WAITERS).collect::<Vec<_>>());
    assert_eq!(backend.acquires(), 50, "one acquire for each");
    assert!(started.elapsed() < ms(50), "no waiter waits for a poll: {:?}", started.elapsed());
    settle().await;
    assert_eq!(backend.client_state().keys_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_waiter_that_leaves_passes_on_its_turn() {
    let backend = FaultyBackend::new();
    let release = held_elsewhere(&backend.store, LONG).await;
    let config = || patient().with_acquisition(hardly_polling());
    let token = CancellationToken::new();
    let first = trying(&backend, config().with_cancellation(token.clone()));
    settle().await;
    let second = waiter(&backend, config()).await;
    let third = waiter(&backend, config()).await;
    let fourth = waiter(&backend, config()).await;
    token.cancel();
    assert_eq!(first.await.unwrap().unwrap_err().code(), ErrorCode::Aborted);
    second.abort();
    settle().await;
    let _ = backend.store.release(release).await.unwrap();
    // The third waiter asked when it became the head, and polls since. A newcomer does not overtake it.
    let started = Instant::now();
    assert!(try_acquire(&backend, KEY).await.unwrap().is_busy());
    let guard = third.await.unwrap();
    assert!(started.elapsed() <= Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(guard.release().await.unwrap().is_released());
    assert!(fourth.await.unwrap().release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn each_waiter_keeps_its_own_limits() {
    let backend = FaultyBackend::new();
    let held = acquire(&backend, patient()).await.unwrap();
    let started = Instant::now();
    let limited = |timeout| {
        let options = AcquisitionOptions::new().with_timeout(ms(timeout));
        trying(&backend, patient().with_acquisition(options))
    };
    let (long, short) = (limited(3_000), limited(200));
    let error = short.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout, "the holder is known");
    assert_eq!(started.elapsed(), ms(200));
    let last = waiter(&backend, patient().with_ttl(ms(700))).await;
    assert_eq!(long.await.unwrap().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    assert!((ms(2_900)..=ms(3_000)).contains(&started.elapsed()), "{:?}", started.elapsed());
    drop(held);
    let guard = last.await.unwrap();
    assert!(guard.valid_for() <= ms(700));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_not_contention_for_queued_waiters_either() {
    let backend = FaultyBackend::new();
    backend.on_acquire().before = LONG;
    let started = Instant::now();
    let options = AcquisitionOptions::new().with_timeout(ms(2_000));
    let config = patient().with_acquisition(options);
    let (first, second) =
        tokio::join!(acquire(&backend, config.clone()), acquire(&backend, config));
    let first = first.unwrap_err();
    assert_eq!((first.code(), first.is_outcome_unknown()), (ErrorCode::NetworkTimeout, true));
    assert_eq!(started.elapsed(), ms(2_000), "a store that hangs cannot outlast the limit");
    let second = second.unwrap_err();
    assert_eq!((second.code(), second.is_outcome_unknown()), (ErrorCode::NetworkTimeout, false));
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_fails_each_waiter_in_turn() {
    let backend = FaultyBackend::new();
    let held = acquire(&backend, patient()).await.unwrap();
    let tasks = [(); 3].map(|()| trying(&backend, patient()));
    settle().await;
    backend.on_acquire().fails = Some(ErrorCode::ServiceUnavailable);
    drop(held);
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap_err().code(), ErrorCode::ServiceUnavailable);
    }
    assert_eq!(backend.client_state().keys_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_is_not_polled_loses_its_place() {
    let backend = FaultyBackend::new();
    let release = held_elsewhere(&backend.store, LONG).await;
    let mut stuck = Box::pin(acquire(&backend, patient()));
    let mut poll = || stuck.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    sleep(ms(1)).await;
    assert!(poll().is_pending(), "it is the head, and waits");
    let behind = waiter(&backend, patient()).await;
    let _ = backend.store.release(release).await.unwrap();
    let started = Instant::now();
    let guard = behind.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    drop(guard);
    sleep(ms(1)).await;
    // The first future gets the lock as well when it is polled.
    let guard = stuck.await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn several_futures_that_are_not_polled_hold_up_no_waiter() {
    let backend = FaultyBackend::new();
    let held = acquire(&backend, patient()).await.unwrap();
    let mut stuck = Vec::new();
    for _ in 0..3 {
        let mut future = Box::pin(acquire(&backend, patient()));
        assert!(future.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        stuck.push(future);
    }
    let behind = waiter(&backend, patient()).await;
    let started = Instant::now();
    drop(held);
    let guard = behind.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(8), "{:?}", started.elapsed());
    assert!(guard.release().await.unwrap().is_released());
}

/// A head that fell asleep for long while it was alone, and is not polled any more.
#[tokio::test(start_paused = true)]
async fn a_long_pause_of_a_head_that_is_not_polled_holds_up_no_newcomer() {
    let backend = FaultyBackend::new();
    *backend.behaviour.watch_opens_after.lock().unwrap() = Some(Duration::ZERO);
    let release = held_elsewhere(&backend.store, LONG).await;
    let mut stuck = Box::pin(acquire(&backend, patient().with_acquisition(hardly_polling())));
    for _ in 0..10 {
        assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
        sleep(ms(1)).await;
    }
    // The future is the head now, has a watch, and sleeps for five minutes.
    let behind = waiter(&backend, patient()).await;
    let _ = backend.store.release(release).await.unwrap();
    let started = Instant::now();
    let guard = behind.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    assert!(guard.release().await.unwrap().is_released());
}

/// If no other waiter stands behind such a future, `try_acquire` and an acquire without retries ask the store.
#[tokio::test(start_paused = true)]
async fn a_future_that_is_not_polled_does_not_stop_try_acquire() {
    let backend = FaultyBackend::new();
    let release = held_elsewhere(&backend.store, LONG).await;
    let mut stuck = Box::pin(acquire(&backend, patient()));
    assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let _ = backend.store.release(release).await.unwrap();
    assert!(try_acquire(&backend, KEY).await.unwrap().is_busy(), "the waiter is before it");
    sleep(Duration::from_secs(600)).await;
    let guard = try_acquire(&backend, KEY).await.unwrap().acquired().expect("the key is free");
    assert!(guard.release().await.unwrap().is_released());
    let at_once = AcquisitionOptions::new().with_max_retries(0);
    let guard = acquire(&backend, LockConfig::new(KEY).with_acquisition(at_once)).await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
    // The waiter is in the queue again when it is polled.
    assert!(stuck.await.unwrap().release().await.unwrap().is_released());
    assert_eq!(backend.client_state().keys_in_use(), 0);
}

/// Rivals can hand the key on faster than a watch can begin. The head still notices when the key is free.
#[tokio::test(start_paused = true)]
async fn a_free_key_is_found_even_if_every_watch_ends_at_once() {
    let backend = FaultyBackend::new();
    *backend.behaviour.watch_opens_after.lock().unwrap() = Some(Duration::ZERO);
    backend.behaviour.watches_end_at_once.store(true, Ordering::Relaxed);
    let release = held_elsewhere(&backend.store, LONG).await;
    let config = LockConfig::new(KEY).with_ttl(LONG).with_acquisition(hardly_polling());
    let waiter = waiter(&backend, config).await;
    sleep(ms(20_000)).await;
    let asked = backend.acquires();
    assert!(asked < 250, "{asked} acquires of a held lock, not as often as a client that polls");
    assert!(backend.store.release(release).await.unwrap().is_released());
    let guard =
        tokio::time::timeout(ms(2_000), waiter).await.expect("a lock within two seconds").unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn the_lock_of_a_crashed_holder_is_taken_after_its_ttl() {
    let backend = FaultyBackend::new();
    for is_local in [true, false] {
        let started = Instant::now();
        if is_local {
            std::mem::forget(
                acquire(&backend, LockConfig::new(KEY).with_ttl(ms(2_000))).await.unwrap(),
            );
        } else {
            let _ = held_elsewhere(&backend.store, ms(2_000)).await;
        }
        let guard = acquire(&backend, patient().with_acquisition(hardly_polling())).await.unwrap();
        let waited = started.elapsed();
        assert!((ms(3_000)..=ms(3_010)).contains(&waited), "TTL and tolerance: {waited:?}");
        assert!(guard.release().await.unwrap().is_released());
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_guard_holds_up_no_waiter() {
    let backend = FaultyBackend::new();
    let kept = patient().with_ttl(ms(3_000)).with_auto_extend(AutoExtend::new());
    let held = acquire(&backend, kept).await.unwrap();
    let behind = waiter(&backend, patient().with_acquisition(hardly_polling())).await;
    // An operator takes the lock away. The next renewal notices.
    let _ = backend.store.release(ReleaseRequest::new(held.lock_id())).await.unwrap();
    let started = Instant::now();
    let guard = behind.await.unwrap();
    assert!(started.elapsed() <= ms(1_100), "{:?}", started.elapsed());
    assert_eq!(held.lost().await, LossReason::NotHeld);
    drop(held);
    settle().await;
    assert!(
        is_locked(&backend, KEY).await,
        "the drop of the lost guard does not release the next holder's lock"
    );
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_passes_the_turn_on_and_again_when_it_works() {
    let backend = FaultyBackend::new();
    let held = acquire(&backend, patient()).await.unwrap();
    let behind = waiter(&backend, patient().with_acquisition(hardly_polling())).await;
    backend.on_release().fails = Some(ErrorCode::ServiceUnavailable);
    let started = Instant::now();
    held.release().await.unwrap_err();
    sleep(ms(500)).await;
    backend.on_release().fails = None;
    let guard = behind.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    drop(guard);
}

#[test]
fn a_runtime_that_ends_passes_on_its_turns() {
    let backend = FaultyBackend::new();
    let (first, second) = (runtime(), runtime());
    let release = second.block_on(held_elsewhere(&backend.store, LONG));
    first.block_on(async {
        for _ in 0..3 {
            drop(waiter(&backend, patient()).await);
        }
    });
    drop(first);
    second.block_on(async {
        let behind = waiter(&backend, patient()).await;
        let _ = backend.store.release(release).await.unwrap();
        let started = Instant::now();
        drop(behind.await.unwrap());
        assert!(started.elapsed() < Duration::from_secs(2));
    });
}

#[tokio::test(start_paused = true)]
async fn an_acquire_without_retries_does_not_wait() {
    let backend = FaultyBackend::new();
    let release = held_elsewhere(&backend.store, LONG).await;
    let behind = waiter(&backend, patient()).await;
    backend.behaviour.acquires.store(0, Ordering::Relaxed);
    let impatient = patient().with_acquisition(AcquisitionOptions::new().with_max_retries(0));
    let error = acquire(&backend, impatient.clone()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(try_acquire(&backend, impatient).await.unwrap().is_busy());
    assert_eq!(backend.acquires(), 0, "a waiter is in the queue");
    let _ = backend.store.release(release).await.unwrap();
    drop(behind.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_signal_needs_no_poll_and_counts_as_no_retry() {
    let backend = SmallStore::new();
    let options = hardly_polling().with_max_retries(1);
    for _ in 0..20 {
        let release = held_elsewhere(&backend, LONG).await;
        let waiting = waiter(&backend, patient().with_acquisition(options)).await;
        let started = Instant::now();
        let _ = backend.release(release).await.unwrap();
        let guard = waiting.await.unwrap();
        assert!(started.elapsed() <= ms(4), "{:?}", started.elapsed());
        assert!(guard.release().await.unwrap().is_released());
    }
}

/// How long a head takes to notice a release, by its polls and by the time that it takes to open a watch.
#[tokio::test(start_paused = true)]
async fn a_head_that_polls_seldom_waits_for_a_watch_and_no_other_does() {
    let often = AcquisitionOptions::new().with_timeout(LONG).with_retry_delay(ms(50));
    for (options, watch_opens_after, released_after, within) in [
        // The head opens the next watch in the same time as the first, and does not poll.
        (hardly_polling(), Some(ms(1_000)), ms(1_500), ms(0)..=ms(1_010)),
        (often, Some(LONG), ms(1_500), ms(0)..=ms(1_000)),
        // Without signals, the poll comes in time. After it, signals that are there by then are heard.
        (hardly_polling(), None, ms(0), ms(299_000)..=ms(300_000)),
        (hardly_polling(), None, ms(301_000), ms(0)..=ms(10)),
    ] {
        let backend = FaultyBackend::new();
        *backend.behaviour.watch_opens_after.lock().unwrap() = watch_opens_after;
        let release = held_elsewhere(&backend.store, LONG).await;
        let waiting = waiter(&backend, patient().with_acquisition(options)).await;
        *backend.behaviour.watch_opens_after.lock().unwrap() = watch_opens_after.or(Some(ms(0)));
        sleep(released_after).await;
        let released = Instant::now();
        let _ = backend.store.release(release).await.unwrap();
        drop(waiting.await.unwrap());
        assert!(within.contains(&released.elapsed()), "{options:?}: {:?}", released.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_up_to_a_limit() {
    let backend = FaultyBackend::new();
    let _ = held_elsewhere(&backend.store, LONG).await;
    let options = AcquisitionOptions::new()
        .with_jitter(Jitter::None)
        .with_backoff(Backoff::Exponential)
        .with_retry_delay(ms(100))
        .with_max_retry_delay(ms(300))
        .with_max_retries(6)
        .with_timeout(LONG);
    let started = Instant::now();
    acquire(&backend, patient().with_acquisition(options)).await.unwrap_err();
    // 100 ms, 200 ms, and four times 300 ms.
    assert_eq!(started.elapsed(), ms(1_500));
}

/// Contenders that have waited for long do not come back at the same time either.
#[tokio::test(start_paused = true)]
async fn the_longest_pauses_differ() {
    let store = NeverGrants::new(Contention::default());
    let options = AcquisitionOptions::new().with_timeout(LONG).with_max_retries(24);
    let mut times = Vec::new();
    for _ in 0..3 {
        let started = Instant::now();
        acquire(&store, patient().with_acquisition(options)).await.unwrap_err();
        times.push(started.elapsed().as_millis());
    }
    // 2 or 3 short pauses, and others between 250 and 500 ms, of which half is random.
    assert!(times.iter().all(|time| (6_000..10_800).contains(time)), "{times:?}");
    assert!(times[0] != times[1] || times[1] != times[2], "{times:?}");
}

/// Without signals, a head polls for all waiters behind it, at its first pause. These polls are no retries.
#[tokio::test(start_paused = true)]
async fn a_head_with_waiters_behind_it_polls_often() {
    let backend = FaultyBackend::new();
    let _ = held_elsewhere(&backend.store, LONG).await;
    let options = AcquisitionOptions::new()
        .with_jitter(Jitter::None)
        .with_retry_delay(ms(100))
        .with_max_retry_delay(LONG)
        .with_max_retries(3)
        .with_timeout(LONG);
    let first = trying(&backend, patient().with_acquisition(options));
    settle().await;
    let second = waiter(&backend, patient()).await;
    let asked = || backend.acquires();
    let before = asked();
    sleep(Duration::from_secs(5)).await;
    let often = asked() - before;
    assert!((45..=51).contains(&often), "{often}");
    assert!(!first.is_finished(), "these polls are no retries");
    second.abort();
    settle().await;
    // Without waiters behind it, the head goes on with its own pauses: 100, 200 and 400 ms.
    let alone = Instant::now();
    assert_eq!(first.await.unwrap().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    assert!(alone.elapsed() <= ms(800), "{:?}", alone.elapsed());
}

#[tokio::test(start_paused = true)]
async fn thousands_of_waiters_that_leave_leave_nothing_behind() {
    let backend = FaultyBackend::new();
    let release = held_elsewhere(&backend.store, LONG).await;
    let tasks: Vec<_> = (0..3_000).map(|_| trying(&backend, patient())).collect();
    settle().await;
    assert_eq!(backend.client_state().keys_in_use(), 1);
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(backend.client_state().keys_in_use(), 0);
    let _ = backend.store.release(release).await.unwrap();
    drop(acquire(&backend, patient()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_woken_waiter_runs_before_the_releaser_goes_on() {
    for finishes in [false, true] {
        let backend = SmallStore::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let next = {
            let (backend, order) = (backend.clone(), Arc::clone(&order));
            async move {
                let guard = acquire(&backend, patient()).await.unwrap();
                order.lock().unwrap().push("next");
                guard
            }
        };
        let task = if finishes {
            let work = async |_held| {
                let task = tokio::spawn(next);
                settle().await;
                (task,)
            };
            let (task,) = lock(&backend, patient(), work).await.unwrap();
            task
        } else {
            let held = acquire(&backend, patient()).await.unwrap();
            let task = tokio::spawn(next);
            settle().await;
            assert!(held.release().await.unwrap().is_released());
            task
        };
        order.lock().unwrap().push("releaser");
        drop(task.await.unwrap());
        assert_eq!(*order.lock().unwrap(), ["next", "releaser"]);
    }
}

/// A store that never grants a lock.
#[derive(Clone)]
struct NeverGrants {
    store: SmallStore,
    /// The store's answer to an acquire.
    holder: Contention,
    /// When the lease of the holder ends, if the store says so.
    ends_at: Option<Instant>,
    asked: Arc<AtomicU32>,
    /// The signals of the open watches; with `None` the store has no signals.
    signals: Option<Arc<Mutex<Vec<KeySignal>>>>,
}

impl NeverGrants {
    fn new(holder: Contention) -> Self {
        let (store, asked) = (SmallStore::new(), Arc::default());
        Self { store, holder, ends_at: None, asked, signals: None }
    }

    fn with_signals() -> (Self, Arc<Mutex<Vec<KeySignal>>>) {
        let signals = Arc::default();
        let this = Self::new(Contention::default());
        (Self { signals: Some(Arc::clone(&signals)), ..this }, signals)
    }

    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

impl LockBackend for NeverGrants {
    type Fence = Fence;

    async fn acquire(&self, _: AcquireRequest) -> Result<AcquireResult, LockError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        let left = self.ends_at.map(|at| at.saturating_duration_since(Instant::now()));
        Ok(AcquireResult::Busy(left.map_or(self.holder, Contention::free_within)))
    }

    async fn watch(&self, _: WatchRequest) -> Option<KeyWatch> {
        let (signal, watch) = KeyWatch::new();
        self.signals.as_ref()?.lock().unwrap().push(signal);
        Some(watch.with_locked())
    }

    forward!(store: release, extend, is_locked, lookup, capabilities, client_state);
}

/// An attempt answers all signals before it.
#[tokio::test(start_paused = true)]
async fn two_signals_before_an_attempt_cause_one() {
    let (store, signals) = NeverGrants::with_signals();
    let waiting = trying(&store, patient().with_acquisition(hardly_polling()));
    settle().await;
    assert_eq!((store.asked(), signals.lock().unwrap().len()), (1, 1));
    for _ in 0..20 {
        signals.lock().unwrap()[0].signal();
        tokio::task::yield_now().await;
        tokio::task::yield_now().await;
        signals.lock().unwrap()[0].signal();
        sleep(ms(100)).await;
        assert_eq!(store.asked(), 1);
    }
    waiting.abort();
}

/// Any role of a PostgreSQL server can signal any key.
#[tokio::test(start_paused = true)]
async fn a_flood_of_signals_makes_no_flood_of_requests() {
    let signals = Arc::<Mutex<Vec<KeySignal>>>::default();
    let store = NeverGrants {
        signals: Some(Arc::clone(&signals)),
        ends_at: Some(Instant::now() + LONG),
        ..NeverGrants::new(Contention::default())
    };
    let waiting = trying(&store, patient().with_acquisition(hardly_polling()));
    settle().await;
    for second in 0..5 {
        let before = store.asked();
        assert!(before < if second == 1 { 25 } else { 15 }, "second {second}: {before}");
        for _ in 0..1_000 {
            signals.lock().unwrap().iter().for_each(KeySignal::signal);
            sleep(ms(1)).await;
        }
    }
    waiting.abort();
}

/// While signals work, the head asks each five seconds and once before its limit, also with waiters behind it. In place of
/// one of these polls, it opens a new watch, which looks at the key.
#[tokio::test(start_paused = true)]
async fn a_head_that_is_told_of_the_release_seldom_asks() {
    for (limit, behind, asked) in [(5_000, 0, 2..=2), (60_000, 0, 12..=13), (60_000, 3, 12..=14)] {
        let (mut store, _signals) = NeverGrants::with_signals();
        store.ends_at = Some(Instant::now() + LONG);
        let config = || LockConfig::new(KEY).with_wait_up_to(ms(limit));
        let started = Instant::now();
        let head = trying(&store, config());
        settle().await;
        let queued: Vec<_> = (0..behind).map(|_| trying(&store, config())).collect();
        let error = head.await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
        assert!(started.elapsed().abs_diff(ms(limit)) < ms(3), "{:?}", started.elapsed());
        let times = store.asked();
        assert!(asked.contains(&times), "{times} times in {limit} ms, {behind} behind");
        for waiter in queued {
            assert_eq!(waiter.await.unwrap().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
        }
    }
}

/// A store can stop sending signals without a sign of it, such as Redis after `FLUSHDB`.
#[tokio::test(start_paused = true)]
async fn a_poll_replaces_an_old_watch() {
    let (store, signals) = NeverGrants::with_signals();
    let waiting = LockConfig::new(KEY).with_wait_up_to(ms(60_000));
    acquire(&store, waiting).await.unwrap_err();
    let opened = signals.lock().unwrap().len();
    assert!((2..=3).contains(&opened), "a watch each half a minute or so: {opened}");
    let unheard = signals.lock().unwrap().iter().filter(|signal| signal.is_unheard()).count();
    assert_eq!(unheard, opened, "none is left behind");
}

/// For a process that is far from the store, the watch opens beside the attempt, and may open long after the answer.
#[tokio::test(start_paused = true)]
async fn the_time_to_open_a_watch_is_no_part_of_the_time_to_answer() {
    let backend = FaultyBackend::new();
    backend.on_acquire().before = ms(2);
    *backend.behaviour.watch_opens_after.lock().unwrap() = Some(ms(150));
    let mut held = held_elsewhere(&backend.store, LONG).await;
    let waiting = waiter(&backend, patient().with_acquisition(hardly_polling())).await;
    // The head hears of each release, and loses each race. From the third one on, it asks without a check.
    for ttl in [LONG, LONG, LONG, ms(400)] {
        sleep(ms(500)).await;
        let _ = backend.store.release(held).await.unwrap();
        held = held_elsewhere(&backend.store, ttl).await;
    }
    let taken = Instant::now();
    let guard = waiting.await.unwrap();
    let waited = taken.elapsed();
    assert!((ms(1_400)..=ms(1_410)).contains(&waited), "TTL and tolerance: {waited:?}");
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn a_pause_before_the_first_attempt_is_no_retry() {
    let backend = FaultyBackend::new();
    let held = acquire(&backend, patient()).await.unwrap();
    backend.behaviour.acquires.store(0, Ordering::Relaxed);
    let options = AcquisitionOptions::new().with_timeout(LONG).with_max_retries(2);
    let error = acquire(&backend, patient().with_acquisition(options)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert_eq!(backend.acquires(), 3, "one, and two retries");
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn the_longest_retry_delay_is_allowed() {
    let store = NeverGrants::new(Contention::default().with_polled(true));
    let options = AcquisitionOptions::new().with_timeout(ms(100)).with_retry_delay(Duration::MAX);
    let waiting = acquire(&store, LockConfig::new(KEY).with_acquisition(options)).await;
    assert_eq!(waiting.unwrap_err().code(), ErrorCode::AcquisitionTimeout);
}

#[tokio::test(start_paused = true)]
async fn an_expiry_wakes_the_head_once() {
    let store = NeverGrants::new(Contention::free_within(Duration::ZERO));
    acquire(&store, LockConfig::new(KEY).with_wait_up_to(ms(10_000))).await.unwrap_err();
    let asked = store.asked();
    // Polls come after 50 to 500 ms, and an attempt at the expiry follows each poll.
    assert!((20..=90).contains(&asked), "{asked}");
}
