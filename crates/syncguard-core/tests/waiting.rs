//! The line in which the callers of one process wait.

mod common;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use common::{Line, is_locked, ms, settle};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, KeySignal, KeyWatch, ReleaseRequest, WatchRequest,
};
use syncguard_core::{
    AcquisitionOptions, AutoExtend, Backoff, CancellationToken, Contention, DynBackend, ErrorCode,
    Fence, Jitter, LockBackend, LockConfig, LockError, LockGuard, acquire, forward, lock,
    try_acquire,
};
use syncguard_memory::MemoryBackend;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

const KEY: &str = "waited-for";
const LONG: Duration = Duration::from_secs(600);

fn patient() -> LockConfig {
    LockConfig::new(KEY)
        .with_ttl(LONG)
        .with_acquisition(AcquisitionOptions::new().with_timeout(LONG))
}

/// Polls that would come too late to explain anything.
fn hardly_polling() -> AcquisitionOptions {
    AcquisitionOptions::new()
        .with_timeout(LONG)
        .with_retry_delay(Duration::from_secs(300))
        .with_jitter(Jitter::None)
}

/// As another process holds it: with no guard here.
async fn held_elsewhere<B: LockBackend>(backend: &B, ttl: Duration) -> ReleaseRequest {
    let request = AcquireRequest::new(KEY, ttl).unwrap();
    let release = ReleaseRequest::new(request.lock_id);
    assert!(backend.acquire(request).await.unwrap().is_acquired());
    release
}

/// A task that waits, and has begun to.
async fn waiter<B: LockBackend>(backend: &B, config: LockConfig) -> JoinHandle<LockGuard<B>> {
    let backend = backend.clone();
    let task = tokio::spawn(async move { acquire(&backend, config).await.unwrap() });
    settle().await;
    task
}

#[tokio::test(start_paused = true)]
async fn turns_come_in_order_and_cost_one_acquire_each() {
    const WAITERS: usize = 50;
    let line = Line::new();
    let held = acquire(&line, patient()).await.unwrap();
    let served = Arc::new(Mutex::new(Vec::new()));
    let mut tasks = Vec::new();
    for number in 0..WAITERS {
        // Clones stand in one line, however they are wrapped.
        let served = Arc::clone(&served);
        let task = async move |guard: Result<_, _>| {
            served.lock().unwrap().push(number);
            guard.unwrap();
        };
        tasks.push(if number % 2 == 0 {
            let line = line.clone();
            tokio::spawn(async move { task(acquire(&line, patient()).await.map(drop)).await })
        } else {
            let line = DynBackend::new(Arc::new(line.clone()));
            tokio::spawn(async move { task(acquire(&line, patient()).await.map(drop)).await })
        });
        settle().await;
    }
    line.behaviour.acquires.store(0, Ordering::Relaxed);
    let started = Instant::now();
    drop(held);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(*served.lock().unwrap(), (0..WAITERS).collect::<Vec<_>>());
    assert_eq!(line.behaviour.acquires.load(Ordering::Relaxed), 50, "one acquire for each");
    assert!(started.elapsed() < ms(50), "nobody waits for a poll: {:?}", started.elapsed());
    settle().await;
    assert_eq!(line.client_state().keys_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_passes_its_turn_on() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let config = || patient().with_acquisition(hardly_polling());
    let token = CancellationToken::new();
    let first = tokio::spawn({
        let (line, config) = (line.clone(), config().with_cancellation(token.clone()));
        async move { acquire(&line, config).await.map(drop) }
    });
    settle().await;
    let second = waiter(&line, config()).await;
    let third = waiter(&line, config()).await;
    let fourth = waiter(&line, config()).await;
    token.cancel();
    assert_eq!(first.await.unwrap().unwrap_err().code(), ErrorCode::Aborted);
    second.abort();
    settle().await;
    let _ = line.store.release(release).await.unwrap();
    // The one that is first now asked when it became the first, and polls. A newcomer does not overtake.
    let started = Instant::now();
    assert!(try_acquire(&line, KEY).await.unwrap().is_held());
    let guard = third.await.unwrap();
    assert!(started.elapsed() <= Duration::from_secs(1), "{:?}", started.elapsed());
    assert!(guard.release().await.unwrap().is_released());
    assert!(fourth.await.unwrap().release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn each_keeps_its_own_limits() {
    let line = Line::new();
    let held = acquire(&line, patient()).await.unwrap();
    let started = Instant::now();
    let limited = |timeout| {
        let config =
            patient().with_acquisition(AcquisitionOptions::new().with_timeout(ms(timeout)));
        let line = line.clone();
        tokio::spawn(async move { acquire(&line, config).await.map(drop) })
    };
    let (long, short) = (limited(3_000), limited(200));
    let error = short.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout, "the holder is known");
    assert_eq!(started.elapsed(), ms(200));
    let last = waiter(&line, patient().with_ttl(ms(700))).await;
    assert_eq!(long.await.unwrap().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    assert!((ms(2_900)..=ms(3_000)).contains(&started.elapsed()), "{:?}", started.elapsed());
    drop(held);
    let guard = last.await.unwrap();
    assert!(guard.valid_for() <= ms(700));
}

#[tokio::test(start_paused = true)]
async fn a_store_that_does_not_answer_is_not_contention_for_those_behind_either() {
    let line = Line::new();
    line.behaviour.acquire.lock().unwrap().before = LONG;
    let options = AcquisitionOptions::new().with_timeout(ms(2_000));
    let config = patient().with_acquisition(options);
    let (first, second) = tokio::join!(acquire(&line, config.clone()), acquire(&line, config));
    let first = first.unwrap_err();
    assert_eq!((first.code(), first.is_outcome_unknown()), (ErrorCode::NetworkTimeout, true));
    let second = second.unwrap_err();
    assert_eq!((second.code(), second.is_outcome_unknown()), (ErrorCode::NetworkTimeout, false));
}

#[tokio::test(start_paused = true)]
async fn a_failing_store_fails_everyone_in_their_turn() {
    let line = Line::new();
    let held = acquire(&line, patient()).await.unwrap();
    let waiting = || {
        let line = line.clone();
        tokio::spawn(async move { acquire(&line, patient()).await.map(drop) })
    };
    let tasks = [waiting(), waiting(), waiting()];
    settle().await;
    line.behaviour.acquire.lock().unwrap().fails = Some(ErrorCode::ServiceUnavailable);
    drop(held);
    for task in tasks {
        assert_eq!(task.await.unwrap().unwrap_err().code(), ErrorCode::ServiceUnavailable);
    }
    assert_eq!(line.client_state().keys_in_use(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_future_that_nobody_polls_loses_its_place() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let mut stuck = Box::pin(acquire(&line, patient()));
    let mut poll = || stuck.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert!(poll().is_pending());
    sleep(ms(1)).await;
    assert!(poll().is_pending(), "it is first, and waits");
    let behind = waiter(&line, patient()).await;
    let _ = line.store.release(release).await.unwrap();
    let started = Instant::now();
    let guard = behind.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    drop(guard);
    sleep(ms(1)).await;
    // And it is not lost for the other one.
    let guard = stuck.await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

/// Also where no other waiter stands behind it: a try asks the store then, and so does an acquire without retries.
#[tokio::test(start_paused = true)]
async fn a_future_that_nobody_polls_does_not_stop_tries() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let mut stuck = Box::pin(acquire(&line, patient()));
    assert!(stuck.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let _ = line.store.release(release).await.unwrap();
    assert!(try_acquire(&line, KEY).await.unwrap().is_held(), "the waiter is before it");
    sleep(Duration::from_secs(600)).await;
    let guard = try_acquire(&line, KEY).await.unwrap().acquired().expect("the key is free");
    assert!(guard.release().await.unwrap().is_released());
    let at_once = AcquisitionOptions::new().with_max_retries(0);
    let guard = acquire(&line, LockConfig::new(KEY).with_acquisition(at_once)).await.unwrap();
    assert!(guard.release().await.unwrap().is_released());
    // The waiter stands in line again when it is polled.
    assert!(stuck.await.unwrap().release().await.unwrap().is_released());
    assert_eq!(line.client_state().keys_in_use(), 0);
}

/// As with a store that hands the key on more quickly than one can listen: when nobody has it, that is heard.
#[tokio::test(start_paused = true)]
async fn a_free_key_is_found_although_no_watch_lasts() {
    let line = Line::new();
    *line.behaviour.listens_after.lock().unwrap() = Some(Duration::ZERO);
    line.behaviour.watches_end_at_once.store(true, Ordering::Relaxed);
    let release = held_elsewhere(&line.store, LONG).await;
    let config = LockConfig::new(KEY).with_ttl(LONG).with_acquisition(hardly_polling());
    let waiter = waiter(&line, config).await;
    sleep(ms(20_000)).await;
    let asked = line.behaviour.acquires.load(Ordering::Relaxed);
    assert!(asked < 5, "{asked} acquires of a held lock");
    assert!(line.store.release(release).await.unwrap().is_released());
    let guard =
        tokio::time::timeout(ms(2_000), waiter).await.expect("heard within two seconds").unwrap();
    assert!(guard.release().await.unwrap().is_released());
}

#[tokio::test(start_paused = true)]
async fn a_crashed_holder_is_followed_when_its_time_is_over() {
    let line = Line::new();
    for is_local in [true, false] {
        let started = Instant::now();
        if is_local {
            std::mem::forget(
                acquire(&line, LockConfig::new(KEY).with_ttl(ms(2_000))).await.unwrap(),
            );
        } else {
            let _ = held_elsewhere(&line.store, ms(2_000)).await;
        }
        let guard = acquire(&line, patient().with_acquisition(hardly_polling())).await.unwrap();
        let waited = started.elapsed();
        assert!((ms(3_000)..=ms(3_010)).contains(&waited), "TTL and tolerance: {waited:?}");
        assert!(guard.release().await.unwrap().is_released());
    }
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_is_lost_holds_nobody_up() {
    let line = Line::new();
    let kept = patient().with_ttl(ms(3_000)).with_auto_extend(AutoExtend::new());
    let held = acquire(&line, kept).await.unwrap();
    let behind = waiter(&line, patient().with_acquisition(hardly_polling())).await;
    // An operator takes the lock away. The renewal hears of it.
    let _ = line.store.release(ReleaseRequest::new(held.lock_id())).await.unwrap();
    let started = Instant::now();
    let guard = behind.await.unwrap();
    assert!(started.elapsed() <= ms(1_100), "{:?}", started.elapsed());
    assert!(held.is_lost());
    drop(held);
    settle().await;
    assert!(is_locked(&line, KEY).await, "the lost guard takes nothing from its heir");
    drop(guard);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_fails_passes_the_turn_on_and_again_when_it_works() {
    let line = Line::new();
    let held = acquire(&line, patient()).await.unwrap();
    let behind = waiter(&line, patient().with_acquisition(hardly_polling())).await;
    line.behaviour.release.lock().unwrap().fails = Some(ErrorCode::ServiceUnavailable);
    let started = Instant::now();
    held.release().await.unwrap_err();
    sleep(ms(500)).await;
    line.behaviour.release.lock().unwrap().fails = None;
    let guard = behind.await.unwrap();
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
    drop(guard);
}

#[test]
fn a_runtime_that_ends_takes_no_turn_along() {
    let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let line = Line::new();
    let (first, second) = (runtime(), runtime());
    let release = second.block_on(held_elsewhere(&line.store, LONG));
    first.block_on(async {
        for _ in 0..3 {
            drop(waiter(&line, patient()).await);
        }
    });
    drop(first);
    second.block_on(async {
        let behind = waiter(&line, patient()).await;
        let _ = line.store.release(release).await.unwrap();
        let started = Instant::now();
        drop(behind.await.unwrap());
        assert!(started.elapsed() < Duration::from_secs(2));
    });
}

#[tokio::test(start_paused = true)]
async fn without_retries_nothing_is_waited_for() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let behind = waiter(&line, patient()).await;
    line.behaviour.acquires.store(0, Ordering::Relaxed);
    let impatient = patient().with_acquisition(AcquisitionOptions::new().with_max_retries(0));
    let error = acquire(&line, impatient.clone()).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(try_acquire(&line, impatient).await.unwrap().is_held());
    assert_eq!(line.behaviour.acquires.load(Ordering::Relaxed), 0, "others are before it");
    let _ = line.store.release(release).await.unwrap();
    drop(behind.await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn a_signal_needs_no_poll_and_counts_as_no_retry() {
    let backend = MemoryBackend::new();
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

#[tokio::test(start_paused = true)]
async fn who_polls_seldom_waits_until_the_store_listens() {
    let line = Line::new();
    *line.behaviour.listens_after.lock().unwrap() = Some(ms(1_000));
    let release = held_elsewhere(&line.store, LONG).await;
    let waiting = waiter(&line, patient().with_acquisition(hardly_polling())).await;
    sleep(ms(1_500)).await;
    let released = Instant::now();
    let _ = line.store.release(release).await.unwrap();
    drop(waiting.await.unwrap());
    // A look that takes as long as the first, and no poll.
    assert!(released.elapsed() <= ms(1_010), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn signals_that_come_back_are_heard_before_the_next_poll() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let waiting = waiter(&line, patient().with_acquisition(hardly_polling())).await;
    line.behaviour.acquires.store(0, Ordering::Relaxed);
    sleep(ms(10_500)).await;
    assert_eq!(line.behaviour.acquires.load(Ordering::Relaxed), 0, "only signals are asked for");
    *line.behaviour.listens_after.lock().unwrap() = Some(Duration::ZERO);
    sleep(ms(1_000)).await;
    let released = Instant::now();
    let _ = line.store.release(release).await.unwrap();
    drop(waiting.await.unwrap());
    assert!(released.elapsed() <= ms(5), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_poll_comes_in_time_without_signals() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let started = Instant::now();
    let waiting = waiter(&line, patient().with_acquisition(hardly_polling())).await;
    let _ = line.store.release(release).await.unwrap();
    drop(waiting.await.unwrap());
    assert_eq!(started.elapsed(), Duration::from_secs(300));
}

#[tokio::test(start_paused = true)]
async fn polls_do_not_wait_until_the_store_listens() {
    let line = Line::new();
    *line.behaviour.listens_after.lock().unwrap() = Some(LONG);
    let release = held_elsewhere(&line.store, LONG).await;
    let often = AcquisitionOptions::new().with_timeout(LONG).with_retry_delay(ms(50));
    let waiting = waiter(&line, patient().with_acquisition(often)).await;
    sleep(ms(1_500)).await;
    let released = Instant::now();
    let _ = line.store.release(release).await.unwrap();
    drop(waiting.await.unwrap());
    assert!(released.elapsed() <= ms(1_000), "{:?}", released.elapsed());
}

#[tokio::test(start_paused = true)]
async fn pauses_grow_up_to_a_limit() {
    let line = Line::new();
    let _ = held_elsewhere(&line.store, LONG).await;
    let options = AcquisitionOptions::new()
        .with_jitter(Jitter::None)
        .with_backoff(Backoff::Exponential)
        .with_retry_delay(ms(100))
        .with_max_retry_delay(ms(300))
        .with_max_retries(6)
        .with_timeout(LONG);
    let started = Instant::now();
    acquire(&line, patient().with_acquisition(options)).await.unwrap_err();
    // 100, 200, and four times 300.
    assert_eq!(started.elapsed(), ms(1_500));
}

/// Without signals it asks for all of them: at its first pause, and that is none of its tries.
#[tokio::test(start_paused = true)]
async fn whoever_others_wait_behind_asks_often() {
    let line = Line::new();
    let _ = held_elsewhere(&line.store, LONG).await;
    let options = AcquisitionOptions::new()
        .with_jitter(Jitter::None)
        .with_retry_delay(ms(100))
        .with_max_retry_delay(LONG)
        .with_max_retries(3)
        .with_timeout(LONG);
    let first = {
        let line = line.clone();
        let config = patient().with_acquisition(options);
        tokio::spawn(async move { acquire(&line, config).await.map(drop) })
    };
    settle().await;
    let second = waiter(&line, patient()).await;
    let asked = || line.behaviour.acquires.load(Ordering::Relaxed);
    let before = asked();
    sleep(Duration::from_secs(5)).await;
    let often = asked() - before;
    assert!((45..=51).contains(&often), "{often}");
    assert!(!first.is_finished(), "these are no tries");
    second.abort();
    settle().await;
    // Alone again, it goes on with the pauses of its own: 100, 200 and 400 ms.
    let alone = Instant::now();
    assert_eq!(first.await.unwrap().unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    assert!(alone.elapsed() <= ms(800), "{:?}", alone.elapsed());
}

#[tokio::test(start_paused = true)]
async fn thousands_that_wait_and_go_leave_nothing() {
    let line = Line::new();
    let release = held_elsewhere(&line.store, LONG).await;
    let mut tasks = Vec::new();
    for _ in 0..3_000 {
        let line = line.clone();
        tasks.push(tokio::spawn(async move { acquire(&line, patient()).await.map(drop) }));
    }
    settle().await;
    assert_eq!(line.client_state().keys_in_use(), 1);
    for task in &tasks {
        task.abort();
    }
    for task in tasks {
        assert!(task.await.unwrap_err().is_cancelled());
    }
    assert_eq!(line.client_state().keys_in_use(), 0);
    let _ = line.store.release(release).await.unwrap();
    drop(acquire(&line, patient()).await.unwrap());
}

#[tokio::test(start_paused = true)]
async fn whoever_is_woken_runs_before_the_one_that_gave_the_lock_back() {
    for finishes in [false, true] {
        let backend = MemoryBackend::new();
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
struct Stubborn {
    store: MemoryBackend,
    /// The store's words on the holder.
    holder: Contention,
    asked: Arc<AtomicU32>,
    /// Of watches that go on.
    signals: Option<Arc<Mutex<Vec<KeySignal>>>>,
}

impl Stubborn {
    fn new(holder: Contention) -> Self {
        Self { store: MemoryBackend::new(), holder, asked: Arc::default(), signals: None }
    }

    fn asked(&self) -> u32 {
        self.asked.swap(0, Ordering::Relaxed)
    }
}

impl LockBackend for Stubborn {
    type Fence = Fence;

    async fn acquire(&self, _: AcquireRequest) -> Result<AcquireResult, LockError> {
        self.asked.fetch_add(1, Ordering::Relaxed);
        Ok(AcquireResult::Locked(self.holder))
    }

    async fn watch(&self, _: WatchRequest) -> Option<KeyWatch> {
        let (signal, watch) = KeyWatch::new();
        self.signals.as_ref()?.lock().unwrap().push(signal);
        Some(watch.that_is_locked())
    }

    forward!(store: release, extend, is_locked, lookup, capabilities, client_state);
}

/// A signal before an attempt is answered by the attempt.
#[tokio::test(start_paused = true)]
async fn two_signals_before_an_attempt_cause_one() {
    let signals = Arc::<Mutex<Vec<KeySignal>>>::default();
    let store =
        Stubborn { signals: Some(Arc::clone(&signals)), ..Stubborn::new(Contention::unknown()) };
    let other = store.clone();
    let waiting = tokio::spawn(async move {
        acquire(&other, patient().with_acquisition(hardly_polling())).await.map(drop)
    });
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

#[tokio::test(start_paused = true)]
async fn the_end_of_a_holder_is_news_once() {
    let store = Stubborn::new(Contention::free_within(Duration::ZERO));
    acquire(&store, LockConfig::new(KEY).wait_up_to(ms(10_000))).await.unwrap_err();
    let asked = store.asked();
    // A poll follows after 50 to 500 ms, and the holder's end after each.
    assert!((20..=90).contains(&asked), "{asked}");
}
