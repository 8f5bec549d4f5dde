//! At most N permits at a time.

use std::future::Future as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::task::{Context, Waker};
use std::time::Duration;

use crate::common::{Connection, is_locked, ms};
use syncguard_core::contract::{KeySignal, TIME_TOLERANCE};
use syncguard_core::diagnostics::get_by_key;
use syncguard_core::{
    AcquisitionOptions, CancellationToken, ErrorCode, Jitter, LockConfig, LockError, LockGuard,
    ReleaseResult, try_acquire,
};
use syncguard_memory::MemoryBackend;
use syncguard_recipes::{Permit, Semaphore};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::{Instant, sleep, timeout};

const KEY: &str = "downloads";
const MINUTE: Duration = Duration::from_secs(60);

fn semaphore(line: &Connection, permits: u32) -> Semaphore<Connection> {
    let patient = AcquisitionOptions::new().with_timeout(ms(600_000));
    Semaphore::new(line.clone(), LockConfig::new(KEY).with_acquisition(patient), permits)
}

/// Starts a task that waits for a permit.
fn waiter(downloads: &Semaphore<Connection>) -> JoinHandle<Result<Permit<Connection>, LockError>> {
    let downloads = downloads.clone();
    tokio::spawn(async move { downloads.acquire().await })
}

#[tokio::test(start_paused = true)]
async fn there_are_so_many_and_each_has_a_slot_and_a_fence() {
    let line = Connection::new();
    let downloads = semaphore(&line, 3);
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(downloads.try_acquire().await.unwrap().acquired().unwrap());
    }
    let mut slots: Vec<_> = permits.iter().map(Permit::slot).collect();
    slots.sort_unstable();
    assert_eq!(slots, [0, 1, 2]);
    for slot in slots {
        assert!(is_locked(&line, &format!("downloads:permit:{slot}")).await);
    }
    let before = line.counts.commands();
    assert!(downloads.try_acquire().await.unwrap().is_busy());
    assert_eq!(line.counts.commands(), before, "all of them are ours");

    // Another process has to ask for each slot.
    let other = Connection::of(&line.store);
    assert!(semaphore(&other, 3).try_acquire().await.unwrap().is_busy());
    assert_eq!(other.counts.commands(), 3);

    let (last, slot) = (permits[1].fence(), permits[1].slot());
    assert_eq!(permits.remove(1).release().await.unwrap(), ReleaseResult::Released);
    let again = downloads.try_acquire().await.unwrap().acquired().unwrap();
    assert_eq!(again.slot(), slot);
    assert!(again.fence() > last);
}

/// One round trip if a slot is free, or if this process gave one back.
#[tokio::test(start_paused = true)]
async fn with_room_it_takes_one_round_trip() {
    let line = Connection::new();
    let downloads = semaphore(&line, 16);
    for round in 1..=20 {
        drop(downloads.acquire().await.unwrap());
        sleep(ms(10)).await;
        assert_eq!(line.counts.acquires.load(Ordering::Relaxed), round);
    }
    // Concurrent callers try different slots.
    let mut all = JoinSet::new();
    for _ in 0..16 {
        let downloads = downloads.clone();
        all.spawn(async move { downloads.acquire().await.unwrap() });
    }
    let started = Instant::now();
    let permits = all.join_all().await;
    assert!(started.elapsed() <= ms(3), "{:?}", started.elapsed());
    assert_eq!(line.counts.acquires.load(Ordering::Relaxed), 36);
    drop(permits);
}

#[tokio::test(start_paused = true)]
async fn bad_arguments_are_refused() {
    let line = Connection::new();
    let retries = AcquisitionOptions::new().with_max_retries(3);
    let bad = [
        Semaphore::new(line.clone(), "", 1),
        Semaphore::new(line.clone(), KEY, 0),
        Semaphore::new(line.clone(), KEY, 1025),
        Semaphore::new(line.clone(), "k".repeat(501), 1),
        Semaphore::new(line.clone(), LockConfig::new(KEY).with_ttl(Duration::ZERO), 1),
        Semaphore::new(line.clone(), LockConfig::new(KEY).with_acquisition(retries), 1),
    ];
    for bad in bad {
        assert_eq!(bad.permits(), 0);
        assert_eq!(bad.acquire().await.unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(bad.try_acquire().await.unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(bad.set_permits(2).unwrap_err().code(), ErrorCode::InvalidArgument);
    }
    assert_eq!(Semaphore::new(line.clone(), "k".repeat(500), 1024).permits(), 1024);
    assert_eq!(line.counts.commands(), 0);
}

/// The key in NFC, the infix and the number, also for the last slot of the longest key.
#[tokio::test(start_paused = true)]
async fn keys_of_slots_are_as_documented_and_fit() {
    let line = Connection::new();
    let rest = "k".repeat(495);
    let longest = Semaphore::new(line.clone(), format!("cafe\u{301}{rest}"), 1024);
    let mut permits = Vec::new();
    while let Some(permit) = longest.try_acquire().await.unwrap().acquired() {
        permits.push(permit);
    }
    assert_eq!(permits.len(), 1024);
    for slot in [0, 1023] {
        assert!(is_locked(&line, &format!("caf\u{e9}{rest}:permit:{slot}")).await);
    }
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_process_get_permits_in_the_order_in_which_they_came() {
    let line = Connection::new();
    let downloads = semaphore(&line, 2);
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let started = Instant::now();
    let mut all = JoinSet::new();
    for number in 0..20 {
        let (downloads, order) = (downloads.clone(), Arc::clone(&order));
        all.spawn(async move {
            let permit = downloads.acquire().await.unwrap();
            order.lock().unwrap().push(number);
            sleep(ms(20)).await;
            // By release and by drop.
            if number % 2 == 0 {
                permit.release().await.unwrap();
            }
        });
        sleep(ms(2)).await;
    }
    all.join_all().await;
    assert_eq!(*order.lock().unwrap(), (0..20).collect::<Vec<_>>());
    assert!(started.elapsed() <= ms(350), "each release is heard: {:?}", started.elapsed());
}

/// Futures that are kept and not polled: the head and two waiters behind it.
#[tokio::test(start_paused = true)]
async fn callers_that_nobody_polls_keep_no_permit_from_the_others() {
    let line = Connection::new();
    let downloads = semaphore(&line, 1);
    let elsewhere = semaphore(&Connection::of(&line.store), 1);
    let held = elsewhere.acquire().await.unwrap();
    let mut context = Context::from_waker(Waker::noop());
    let mut stuck: Vec<_> = (0..3).map(|_| Box::pin(downloads.acquire())).collect();
    for _ in 0..20 {
        for stuck in &mut stuck {
            assert!(stuck.as_mut().poll(&mut context).is_pending());
        }
        tokio::task::yield_now().await;
    }
    assert!(held.release().await.unwrap().is_released());
    let started = Instant::now();
    let permit = downloads.acquire().await.unwrap();
    assert!(started.elapsed() < ms(20_000), "{:?}", started.elapsed());
    assert!(downloads.try_acquire().await.unwrap().is_busy());
    assert!(permit.release().await.unwrap().is_released());
    sleep(ms(20_000)).await;
    let permit = downloads.try_acquire().await.unwrap().acquired().expect("nobody else asks");
    assert!(permit.release().await.unwrap().is_released());
    // They go on when they are polled again. An answer that was left unread for too long is not used.
    for stuck in stuck {
        match stuck.await {
            Ok(permit) => assert!(permit.release().await.unwrap().is_released()),
            Err(error) => assert_eq!(error.code(), ErrorCode::NetworkTimeout),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_time_limit_and_no_retries() {
    let line = Connection::new();
    let held = semaphore(&line, 1).acquire().await.unwrap();
    let other = Connection::of(&line.store);
    let limit = AcquisitionOptions::new().with_timeout(ms(3_000));
    let brief = Semaphore::new(other.clone(), LockConfig::new(KEY).with_acquisition(limit), 1);
    let started = Instant::now();
    let (one, two) = tokio::join!(brief.acquire(), brief.acquire());
    for error in [one.unwrap_err(), two.unwrap_err()] {
        assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    }
    assert!(started.elapsed() <= ms(3_100));
    let before = other.counts.commands();
    let never = LockConfig::new(KEY).with_acquisition(limit.with_max_retries(0));
    let never = Semaphore::new(other.clone(), never, 1);
    assert_eq!(never.acquire().await.unwrap_err().code(), ErrorCode::AcquisitionTimeout);
    assert_eq!(other.counts.commands(), before + 1);
    drop(held);
}

#[tokio::test(start_paused = true)]
async fn an_outage_is_ridden_out_and_a_token_ends_the_wait() {
    let line = Connection::new();
    let config = || LockConfig::new(KEY).with_holder("web-7f9c").with_ride_out(MINUTE);
    let patient = Semaphore::new(line.clone(), config(), 1);
    line.cut(true);
    let waiting = waiter(&patient);
    // An outage is no wait: the limit for that is five seconds.
    sleep(MINUTE / 2).await;
    line.cut(false);
    let permit = waiting.await.unwrap().unwrap();
    let slot = get_by_key(&line.store, &format!("{KEY}:permit:0")).await.unwrap().unwrap();
    assert_eq!(slot.holder.unwrap().label(), "web-7f9c");

    let token = CancellationToken::new();
    let config = config().with_wait_up_to(MINUTE).with_cancellation(token.clone());
    let waiting = waiter(&Semaphore::new(line.clone(), config.clone(), 1));
    sleep(ms(500)).await;
    token.cancel();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), ErrorCode::Aborted);

    // After an outage, the time to wait begins anew.
    let waiting = waiter(&patient);
    line.cut(true);
    sleep(MINUTE / 2).await;
    line.cut(false);
    let over = Instant::now();
    let error = waiting.await.unwrap().unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(error.message().contains("the limit is 5s") && over.elapsed() <= ms(5_100), "{error}");
    drop(permit);

    line.cut(true);
    let began = Instant::now();
    let error = patient.acquire().await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    // This process had the key for long, and leaves it free for a moment. The last attempt is made at the end.
    let longest = MINUTE + ms(2_000);
    assert!((MINUTE..=longest).contains(&began.elapsed()), "{:?}", began.elapsed());
}

/// After a crash of its holder, a slot is taken as soon as its lock has expired.
#[tokio::test(start_paused = true)]
async fn no_permit_is_lost_after_a_crash() {
    let line = Connection::new();
    let ttl = ms(2_000);
    // Locks without renewals, as after a crash.
    for slot in 0..3 {
        let config = LockConfig::new(format!("{KEY}:permit:{slot}")).with_ttl(ttl);
        std::mem::forget(try_acquire(&line, config).await.unwrap().acquired().unwrap());
    }
    let crashed = Instant::now();
    let next = semaphore(&Connection::of(&line.store), 3);
    let mut permits = Vec::new();
    for _ in 0..3 {
        permits.push(next.acquire().await.unwrap());
    }
    let (took, whole) = (crashed.elapsed(), ttl + TIME_TOLERANCE);
    assert!(took + ms(10) >= whole && took <= whole + ms(20), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_release_elsewhere_is_heard_or_else_found_by_looking() {
    for (without_signals, within) in [(false, 5), (true, 510)] {
        let line = Connection::new();
        let held = semaphore(&line, 2);
        let permits = [held.acquire().await.unwrap(), held.acquire().await.unwrap()];
        let other = Connection::of(&line.store);
        other.counts.without_signals.store(without_signals, Ordering::Relaxed);
        let waiting = waiter(&semaphore(&other, 2));
        sleep(ms(60_000)).await;
        let looks = other.counts.commands();
        // Without signals each slot is polled twice a second; with signals, each five seconds.
        assert!(looks < if without_signals { 400 } else { 40 }, "{looks}");
        let [first, second] = permits;
        let released = Instant::now();
        drop(first);
        drop(waiting.await.unwrap().unwrap());
        assert!(
            released.elapsed() <= ms(within),
            "without signals: {without_signals}, {:?}",
            released.elapsed()
        );
        drop(second);
    }
}

#[tokio::test(start_paused = true)]
async fn the_number_changes_in_both_directions() {
    let line = Connection::new();
    // A waiter that is not woken asks again after half of this at the earliest.
    let seldom = AcquisitionOptions::new().with_retry_delay(MINUTE).with_max_retry_delay(MINUTE);
    let seldom = LockConfig::new(KEY).with_acquisition(seldom.with_timeout(10 * MINUTE));
    let downloads = Semaphore::new(line, seldom, 2);
    let mut permits = vec![downloads.acquire().await.unwrap(), downloads.acquire().await.unwrap()];
    let waiting = waiter(&downloads);
    sleep(ms(500)).await;
    downloads.set_permits(4).unwrap();
    permits.push(timeout(ms(10), waiting).await.expect("woken").unwrap().unwrap());
    permits.push(downloads.acquire().await.unwrap());
    // A permit above the new number stays valid until it is given back, and is not granted again.
    downloads.set_permits(1).unwrap();
    assert!(permits.iter().all(|permit| !permit.is_lost()));
    permits.retain(|permit| permit.slot() == 0);
    sleep(ms(10)).await;
    assert!(downloads.try_acquire().await.unwrap().is_busy());
    drop(permits);
    sleep(ms(10)).await;
    assert_eq!(downloads.try_acquire().await.unwrap().acquired().unwrap().slot(), 0);
    assert_eq!(downloads.set_permits(0).unwrap_err().code(), ErrorCode::InvalidArgument);
}

/// Several processes with many tasks each never hold more than the permits, and all tasks finish.
#[tokio::test(start_paused = true)]
async fn never_more_than_so_many_over_several_processes() {
    let (most, commands_per_grant) = crowd(4, 16, 3).await;
    assert_eq!(most, 3);
    // A storm of requests would be dozens.
    assert!(commands_per_grant < 9.0, "{commands_per_grant}");
    // With a permit more, the same count shows one more.
    assert_eq!(crowd(2, 8, 4).await.0, 4);
}

/// A process whose tasks leave no permit free has its turn, as with a lock.
#[tokio::test(start_paused = true)]
async fn a_process_that_never_rests_lets_rivals_in() {
    let line = Connection::new();
    for tasks in [2, 8] {
        let mut loops = JoinSet::new();
        let busy = semaphore(&line, 2);
        for _ in 0..tasks {
            let downloads = busy.clone();
            loops.spawn(async move {
                loop {
                    let permit = downloads.acquire().await.unwrap();
                    sleep(ms(5)).await;
                    permit.release().await.unwrap();
                }
            });
        }
        sleep(ms(3_000)).await;
        let rival = semaphore(&Connection::of(&line.store), 2);
        for _ in 0..10 {
            let began = Instant::now();
            let permit = rival.acquire().await.unwrap();
            assert!(began.elapsed() <= ms(1_000), "{:?}", began.elapsed());
            permit.release().await.unwrap();
        }
    }
}

/// Returns the largest number of permits that were held at a time, and the commands for each grant.
async fn crowd(processes: u32, tasks: u32, permits: u32) -> (i32, f64) {
    const ROUNDS: u32 = 20;
    let store = MemoryBackend::new();
    let (now, most) = (Arc::new(AtomicI32::new(0)), Arc::new(AtomicI32::new(0)));
    let lines: Vec<_> = (0..processes).map(|_| Connection::of(&store)).collect();
    let mut all = JoinSet::new();
    for line in &lines {
        let downloads = semaphore(line, permits);
        for task in 0..tasks {
            let downloads = downloads.clone();
            let (now, most) = (Arc::clone(&now), Arc::clone(&most));
            all.spawn(async move {
                for round in 0..ROUNDS {
                    let permit = downloads.acquire().await.unwrap();
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    sleep(ms(u64::from(3 + (task + round) % 5))).await;
                    now.fetch_sub(1, Ordering::SeqCst);
                    if round % 3 == 0 {
                        permit.release().await.unwrap();
                    }
                }
            });
        }
    }
    all.join_all().await;
    let commands: u32 = lines.iter().map(|line| line.counts.commands()).sum();
    let grants = f64::from(processes * tasks * ROUNDS);
    (most.load(Ordering::SeqCst), f64::from(commands) / grants)
}

/// An acquire that is dropped at any await leaves no permit taken.
#[tokio::test(start_paused = true)]
async fn dropped_at_any_moment_it_leaves_no_permit() {
    let line = Connection::new();
    let downloads = semaphore(&line, 2);
    for after in 0..40 {
        let other = Connection::of(&line.store);
        let elsewhere = semaphore(&other, 2);
        let held = [elsewhere.acquire().await.unwrap(), elsewhere.acquire().await.unwrap()];
        tokio::spawn(async move {
            sleep(ms(10)).await;
            drop(held);
        });
        let limit = Duration::from_micros(500 * after);
        let _ = timeout(limit, downloads.acquire()).await;
        sleep(ms(50)).await;
        for slot in 0..2 {
            assert!(!is_locked(&line, &format!("{KEY}:permit:{slot}")).await, "{after}");
        }
        drop(downloads.try_acquire().await.unwrap().acquired().expect("room"));
        sleep(ms(10)).await;
    }
}

/// Takes slots as other processes do.
async fn held_elsewhere(
    store: &MemoryBackend,
    slots: impl IntoIterator<Item = u32>,
) -> Vec<LockGuard<Connection>> {
    let other = Connection::of(store);
    let mut held = Vec::new();
    for slot in slots {
        let key = format!("{KEY}:permit:{slot}");
        held.push(try_acquire(&other, key).await.unwrap().acquired().expect("a free slot"));
    }
    held
}

/// A release that gives no signal is found by a poll, whichever slot it is, and whether the other slots are held by this
/// process or by others.
#[tokio::test(start_paused = true)]
async fn each_slot_is_polled() {
    for released in [0, 1] {
        let line = Connection::new();
        line.counts.is_deaf.store(true, Ordering::Relaxed);
        let mut others = held_elsewhere(&line.store, [1, 2]).await;
        let downloads = semaphore(&line, 3);
        let own = downloads.acquire().await.unwrap();
        let waiter = waiter(&downloads);
        sleep(ms(1_000)).await;
        let _ = others.remove(released).release().await.unwrap();
        let started = Instant::now();
        drop(waiter.await.unwrap().unwrap());
        assert!(started.elapsed() <= ms(5_100), "{:?}", started.elapsed());
        drop((own, others));
    }
}

/// Anybody who may signal could otherwise make a waiter ask as fast as the store answers. A release is heard nevertheless.
#[tokio::test(start_paused = true)]
async fn signals_that_bring_nothing_cost_few_requests() {
    let line = Connection::new();
    line.counts.is_deaf.store(true, Ordering::Relaxed);
    let mut others = held_elsewhere(&line.store, 0..4).await;
    let waiter = waiter(&semaphore(&line, 4));
    sleep(ms(100)).await;
    let counts = Arc::clone(&line.counts);
    let flood = tokio::spawn(async move {
        loop {
            counts.unsent.lock().unwrap().iter().for_each(KeySignal::signal);
            sleep(ms(1)).await;
        }
    });
    let before = line.counts.commands();
    sleep(ms(10_000)).await;
    let requests = line.counts.commands() - before;
    assert!((100..=260).contains(&requests), "20 a second, and polls: {requests}");
    let released = Instant::now();
    let _ = others.remove(2).release().await.unwrap();
    assert_eq!(waiter.await.unwrap().unwrap().slot(), 2);
    assert!(released.elapsed() <= ms(300), "{:?}", released.elapsed());
    flood.abort();
}

/// A time limit that ends in the middle of a request is no failure of the store.
#[tokio::test(start_paused = true)]
async fn a_time_limit_tells_contention_from_a_store_that_hangs() {
    let store = MemoryBackend::new();
    let _others = held_elsewhere(&store, 0..100).await;
    let mut far = Connection::of(&store);
    far.takes = ms(60);
    for retries in [0, u32::MAX] {
        let options = AcquisitionOptions::new().with_max_retries(retries);
        let downloads =
            Semaphore::new(far.clone(), LockConfig::new(KEY).with_acquisition(options), 100);
        let error = downloads.acquire().await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AcquisitionTimeout, "{error}");
    }
    far.takes = ms(600_000);
    let error = Semaphore::new(far, KEY, 100).acquire().await.unwrap_err();
    assert_eq!((error.code(), error.is_outcome_unknown()), (ErrorCode::NetworkTimeout, true));
}

#[tokio::test(start_paused = true)]
async fn slots_are_known_to_be_free_after_their_minimum_hold() {
    let line = Connection::new();
    let downloads = Semaphore::new(line, LockConfig::new(KEY).with_min_hold(ms(3_000)), 20);
    for _ in 0..2 {
        let started = Instant::now();
        let mut callers = JoinSet::new();
        for _ in 0..20 {
            let downloads = downloads.clone();
            callers.spawn(async move { drop(downloads.acquire().await.unwrap()) });
        }
        callers.join_all().await;
        assert!(started.elapsed() <= ms(3_200), "{:?}", started.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_waiter_ends_the_watches_in_whatever_order_they_go() {
    let line = Connection::new();
    line.counts.is_deaf.store(true, Ordering::Relaxed);
    let _others = held_elsewhere(&line.store, 0..3).await;
    let downloads = semaphore(&line, 3);
    let head = waiter(&downloads);
    sleep(ms(100)).await;
    let second = waiter(&downloads);
    sleep(ms(10)).await;
    let open = || line.counts.unsent.lock().unwrap().iter().filter(|it| !it.is_unheard()).count();
    assert_eq!(open(), 3);
    // Both go before either of them is polled again.
    head.abort();
    second.abort();
    sleep(ms(10)).await;
    assert_eq!(open(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_signal_is_not_spent_by_a_request_that_fails() {
    let line = Connection::new();
    // The watch goes on after its signal, as on PostgreSQL.
    line.counts.is_deaf.store(true, Ordering::Relaxed);
    let mut others = held_elsewhere(&line.store, [0]).await;
    // No poll comes before the signal.
    let minute = ms(60_000);
    let options = AcquisitionOptions::new().with_timeout(10 * minute).with_jitter(Jitter::None);
    let options = options.with_retry_delay(minute).with_max_retry_delay(minute);
    let config = LockConfig::new(KEY).with_acquisition(options);
    let downloads = Semaphore::new(line.clone(), config, 1);
    let first = waiter(&downloads);
    sleep(ms(200)).await;
    let second = waiter(&downloads);
    sleep(ms(10)).await;
    line.cut(true);
    let _ = others.remove(0).release().await.unwrap();
    line.counts.unsent.lock().unwrap()[0].signal();
    assert_eq!(first.await.unwrap().unwrap_err().code(), ErrorCode::ServiceUnavailable);
    line.cut(false);
    let started = Instant::now();
    drop(second.await.unwrap().unwrap());
    assert!(started.elapsed() <= ms(10), "{:?}", started.elapsed());
}
