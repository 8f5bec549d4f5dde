//! Several locks or none.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::task::Poll;
use std::time::Duration;

use crate::common::{Connection, is_locked, ms};
use proptest::prelude::*;
use syncguard_core::contract::ReleaseRequest;
use syncguard_core::{
    AcquisitionOptions, AutoExtend, DynBackend, ErrorCode, Key, LockBackend, LockConfig,
    LossReason, ReleaseResult, try_acquire,
};
use syncguard_memory::TestStore;
use syncguard_recipes::{lock_all, try_lock_all};
use tokio::time::{Instant, sleep, timeout};

const KEYS: [&str; 5] = ["a", "b", "c", "d", "e"];

#[tokio::test(start_paused = true)]
async fn all_of_them_are_held_each_with_its_fence_and_released_in_one_go() {
    let line = Connection::new();
    let b = try_acquire(&line, "b").await.unwrap().acquired().unwrap();
    b.release().await.unwrap();
    let started = Instant::now();
    let set = lock_all(&line, ["c", "a", "b"]).await.unwrap();
    assert!(started.elapsed() <= 2 * line.takes, "two round trips, not {:?}", started.elapsed());
    let fences = set.fences().map(|(key, fence)| (key.expose(), fence.get()));
    assert_eq!(fences.collect::<Vec<_>>(), [("a", 1), ("b", 2), ("c", 1)]);
    assert_eq!(set.fence("b").unwrap().get(), 2);
    assert_eq!((set.fence("d"), set.len()), (None, 3));
    for key in ["a", "b", "c"] {
        assert!(is_locked(&line, key).await);
    }
    let started = Instant::now();
    let released = set.release().await.unwrap();
    assert!(started.elapsed() <= line.takes, "one round trip, not {:?}", started.elapsed());
    assert!(released.iter().all(|(_, result)| *result == ReleaseResult::Released));
    for key in ["a", "b", "c"] {
        assert!(!is_locked(&line, key).await);
    }
}

#[tokio::test(start_paused = true)]
async fn without_waiting_it_is_all_or_none_in_one_round_trip() {
    let line = Connection::new();
    let held = try_acquire(&line, "b").await.unwrap().acquired().unwrap();
    let started = Instant::now();
    let tried = try_lock_all(&line, ["c", "a", "b"]).await.unwrap();
    assert!(tried.is_busy() && started.elapsed() == line.takes, "{tried:?}");
    sleep(2 * line.takes).await;
    for key in ["a", "c"] {
        assert!(!is_locked(&line, key).await, "{key} is given back");
    }
    held.release().await.unwrap();
    let set = try_lock_all(&line, ["c", "a", "b"]).await.unwrap().acquired().unwrap();
    assert_eq!(set.len(), 3);
    let twice = try_lock_all(&line, ["a", "a"]).await.unwrap_err();
    assert_eq!(twice.code(), ErrorCode::InvalidArgument);
}

/// 100 keys in eleven round trips: 1, 2, 4, 8 and seven times 16, the last ones fewer.
#[tokio::test(start_paused = true)]
async fn many_free_keys_are_asked_for_at_once() {
    let line = Connection::new();
    let keys = || (0..100).map(|key| format!("key-{key:03}"));
    let started = Instant::now();
    let set = lock_all(&line, keys()).await.unwrap();
    assert_eq!((started.elapsed(), line.counts.commands()), (10 * line.takes, 100));
    assert_eq!(set.release().await.unwrap().len(), 100);
    // A lock with a minimum hold that is given back would stay.
    let started = Instant::now();
    let kept = keys().map(|key| LockConfig::new(key).with_min_hold(ms(10)));
    drop(lock_all(&line, kept).await.unwrap());
    assert_eq!(started.elapsed(), 100 * line.takes);
}

/// The key in the middle of several that are asked for at once is held: those before it are kept, and those behind it are
/// free again while the caller waits.
#[tokio::test(start_paused = true)]
async fn a_caller_that_waits_holds_only_keys_that_come_before() {
    let line = Connection::new();
    let other = Connection::of(&line.store);
    let held = try_acquire(&other, "e").await.unwrap().acquired().unwrap();
    let all = ["a", "b", "c", "d", "e", "f", "g"];
    let waiting = tokio::spawn({
        let line = line.clone();
        async move { lock_all(&line, all).await.map(|set| set.len()) }
    });
    sleep(ms(100)).await;
    for (key, is_held) in all.into_iter().zip([true, true, true, true, true, false, false]) {
        assert_eq!(is_locked(&line, key).await, is_held, "{key}");
    }
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 7);
}

#[tokio::test(start_paused = true)]
async fn bad_sets_are_refused_before_anything_is_sent() {
    let line = Connection::new();
    let refused = async |keys: Vec<LockConfig>| lock_all(&line, keys).await.unwrap_err();
    // The same key with and without a combining accent.
    let twice = vec!["caf\u{e9}".into(), "x".into(), "cafe\u{301}".into()];
    let bad = [
        (twice, "twice"),
        (vec![], "no keys"),
        (vec!["a".into(), "".into()], "empty"),
        (vec!["a".into(), LockConfig::new("b").with_ttl(Duration::ZERO)], "TTL"),
    ];
    for (keys, why) in bad {
        let error = refused(keys).await;
        assert_eq!(error.code(), ErrorCode::InvalidArgument);
        assert!(error.message().contains(why), "{error}");
    }
    assert_eq!(line.counts.commands(), 0);
}

#[tokio::test(start_paused = true)]
async fn all_are_kept_alive_and_the_first_loss_is_heard() {
    let line = Connection::new();
    let mut keys = KEYS.map(|key| LockConfig::new(key).with_ttl(ms(300)));
    let capped = AutoExtend::new().with_max_hold(ms(8_000));
    keys[4] = keys[4].clone().with_auto_extend(capped);
    let set = lock_all(&DynBackend::new(line.clone()), keys).await.unwrap();
    sleep(ms(5_000)).await;
    assert!(!set.is_lost() && set.valid_for() > ms(100));
    let lost = set.lost();
    let third = set.guards().nth(2).unwrap().lock_id();
    assert!(line.store.release(ReleaseRequest::new(third)).await.unwrap().is_released());
    let (key, reason) = lost.await;
    assert_eq!((key.expose(), reason), ("c", LossReason::NotHeld));
    assert!(set.is_lost() && set.valid_for().is_zero());
    let capped = timeout(ms(5_000), set.guards().nth(4).unwrap().lost());
    assert_eq!(capped.await.expect("the cap of its configuration"), LossReason::MaxHold);
    let released = set.release().await.unwrap();
    let held = released.iter().map(|(_, result)| result.is_released());
    assert_eq!(held.collect::<Vec<_>>(), [true, true, false, true, true]);
}

#[tokio::test(start_paused = true)]
async fn a_failure_gives_back_what_was_taken() {
    let line = Connection::new();
    let other = try_acquire(&line, "c").await.unwrap().acquired().unwrap();
    let limit = AcquisitionOptions::new().with_timeout(ms(2_000));
    let keys = KEYS.map(|key| LockConfig::new(key).with_acquisition(limit));
    let started = Instant::now();
    let error = lock_all(&line, keys).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::AcquisitionTimeout);
    assert!(started.elapsed() <= ms(2_100));
    sleep(ms(10)).await;
    for key in ["a", "b", "d", "e"] {
        assert!(!is_locked(&line, key).await, "{key}");
    }
    drop(other);
}

#[tokio::test(start_paused = true)]
async fn a_loss_while_another_lock_is_waited_for_is_an_error() {
    let store = TestStore::new();
    let held = try_acquire(&store, "b").await.unwrap().acquired().unwrap();
    let keys = ["a", "b"].map(|key| LockConfig::new(key).with_ttl(ms(300)));
    let waiting = tokio::spawn({
        let store = store.clone();
        async move { lock_all(&store, keys).await.map(drop) }
    });
    sleep(ms(50)).await;
    assert!(store.lose_lock("a").unwrap());
    // The next renewal of `a` notices.
    sleep(ms(200)).await;
    held.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap_err().code(), ErrorCode::ServiceUnavailable);
    sleep(ms(10)).await;
    assert_eq!(store.memory().stored_locks(), 0);
}

/// The longest limit is the limit for the whole wait.
#[tokio::test(start_paused = true)]
async fn one_limit_is_for_all() {
    let line = Connection::new();
    let held = lock_all(&line, KEYS).await.unwrap();
    let next = line.clone();
    let waiting = tokio::spawn(async move {
        let limits = KEYS.into_iter().zip([1, 3_000, 2_500, 1, 1]);
        let keys = limits.map(|(key, limit)| LockConfig::new(key).with_wait_up_to(ms(limit)));
        let started = Instant::now();
        (lock_all(&next, keys).await.unwrap_err().code(), started.elapsed())
    });
    sleep(ms(2_000)).await;
    // Two locks become free, the third does not.
    let mut guards = held.guards();
    for _ in 0..2 {
        let id = guards.next().unwrap().lock_id();
        line.store.release(ReleaseRequest::new(id)).await.unwrap();
    }
    let (code, took) = waiting.await.unwrap();
    assert_eq!(code, ErrorCode::AcquisitionTimeout);
    assert!((ms(2_990)..=ms(3_100)).contains(&took), "{took:?}");
}

/// Requests for free locks do not count as waiting, and none of them is cut off by the rest of the limit.
#[tokio::test(start_paused = true)]
async fn the_limit_counts_waiting_alone() {
    let store = TestStore::new();
    store.set_delay(ms(50));
    let set = |most: usize, min_hold: Option<Duration>| {
        let keys = (0..most).map(move |number| LockConfig::new(format!("k{number:03}")));
        let keys =
            keys.map(move |key| min_hold.map_or(key.clone(), |time| key.with_min_hold(time)));
        let store = store.clone();
        async move { lock_all(&store, keys).await.map(|set| set.len()) }
    };
    let started = Instant::now();
    assert_eq!(set(120, Some(ms(1))).await.unwrap(), 120);
    assert!(started.elapsed() >= ms(6_000), "one by one, {:?}", started.elapsed());

    // Two waits of 4.2 s and 0.4 s, and more than 5 s in all.
    let held = async |key| try_acquire(&store, key).await.unwrap().acquired().unwrap();
    sleep(ms(2_000)).await;
    let (middle, late) = (held("k050").await, held("k090").await);
    let (started, waiting) = (Instant::now(), tokio::spawn(set(100, None)));
    sleep(ms(4_400)).await;
    middle.release().await.unwrap();
    sleep(ms(700)).await;
    late.release().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 100);
    assert!(started.elapsed() > ms(5_200));
}

/// However long the store takes to answer, and whatever is left of the limit for the last wait.
#[tokio::test(start_paused = true)]
async fn the_error_at_the_end_names_the_set() {
    for (delay, first_wait) in [(0, 0), (5, 2_997), (40, 2_900), (60, 2_960), (90, 2_850)] {
        let store = TestStore::new();
        let held = async |key| try_acquire(&store, key).await.unwrap().acquired().unwrap();
        let (first, _last) = (held("c").await, held("d").await);
        store.set_delay(ms(delay));
        let limits = KEYS.map(|key| LockConfig::new(key).with_wait_up_to(ms(3_000)));
        let waiting = tokio::spawn({
            let store = store.clone();
            async move { lock_all(&store, limits).await.map(drop) }
        });
        sleep(ms(first_wait)).await;
        first.release().await.unwrap();
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error.code(), ErrorCode::AcquisitionTimeout, "{delay}, {first_wait}: {error}");
        // A poll of the first wait may be on its way when that lock becomes free.
        let taken = if error.key().map(Key::expose) == Some("d") { 3 } else { 2 };
        let words = format!(
            "{taken} of the 5 locks of the set were taken; the limit for all of the waiting is 3s (with_wait_up_to)"
        );
        assert!(error.message().contains(&words), "{delay}, {first_wait}: {error}");
        let missing = format!("the lock {} of the set", error.key().unwrap().hash_id());
        assert!(error.message().starts_with(&missing), "{error}");
    }
    // A set that does not wait.
    let line = Connection::new();
    let _held = try_acquire(&line, "c").await.unwrap().acquired().unwrap();
    let never = AcquisitionOptions::new().with_max_retries(0);
    let before = line.counts.commands();
    let error = lock_all(&line, KEYS.map(|key| LockConfig::new(key).with_acquisition(never)));
    let error = error.await.unwrap_err();
    assert_eq!(
        (error.code(), error.key().map(Key::expose)),
        (ErrorCode::AcquisitionTimeout, Some("c"))
    );
    assert!(
        error.message().contains("2 of the 5 locks") && error.message().contains("0 retries"),
        "{error}"
    );
    sleep(ms(10)).await;
    assert_eq!(line.counts.acquires.load(Ordering::Relaxed), before + 3);
}

/// A store that fails is told from one that takes its time, and is ridden out if the caller wishes so.
#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_reported_or_ridden_out() {
    let line = Connection::new();
    line.cut(true);
    let started = Instant::now();
    let error = lock_all(&line, KEYS).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable);
    assert_eq!((line.counts.commands(), started.elapsed()), (1, line.takes / 2));
    tokio::spawn({
        let line = line.clone();
        async move {
            sleep(ms(8_000)).await;
            line.cut(false);
        }
    });
    let patient = KEYS.map(|key| LockConfig::new(key).with_ride_out(ms(20_000)));
    assert_eq!(lock_all(&line, patient).await.unwrap().len(), 5);
    assert!(started.elapsed() >= ms(8_000));
}

/// Polls a future up to `polls` times, then drops it.
async fn polled<F: Future>(future: F, polls: u32) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    poll_fn(move |context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        future.as_mut().poll(context).map(Some)
    })
    .await
}

#[tokio::test(start_paused = true)]
async fn dropped_at_any_await_it_leaves_no_lock() {
    let mut has_ended = false;
    for polls in 1..200 {
        let line = Connection::new();
        // A lock that has to be waited for.
        let other = try_acquire(&line, "c").await.unwrap().acquired().unwrap();
        tokio::spawn(async move {
            sleep(ms(5)).await;
            drop(other);
        });
        if let Some(set) = polled(lock_all(&line, KEYS), polls).await {
            has_ended = true;
            drop(set.unwrap());
        }
        sleep(ms(50)).await;
        for key in KEYS {
            assert!(!is_locked(&line, key).await, "{key} after {polls} polls");
        }
        if has_ended {
            assert!(polls > 7, "only {polls} awaits");
            return;
        }
    }
    panic!("it never ended");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    /// Two callers of one or two processes take overlapping sets in any order, and both finish soon.
    #[test]
    fn two_callers_never_deadlock(
        one in Just(KEYS.to_vec()).prop_shuffle(),
        other in Just(KEYS.to_vec()).prop_shuffle(),
        sizes in (1..=5_usize, 1..=5_usize),
        takes in (0..4_u64, 0..4_u64),
        same_process: bool,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all().start_paused(true).build().unwrap();
        runtime.block_on(async {
            let first = Connection::new();
            let mut second = if same_process { first.clone() } else { Connection::of(&first.store) };
            second.takes = ms(takes.1);
            let rounds = Arc::new(AtomicU32::new(0));
            let callers = [(first, one, sizes.0, takes.0), (second, other, sizes.1, takes.1)];
            let callers = callers.map(|(mut line, keys, size, takes)| {
                line.takes = ms(takes);
                let rounds = Arc::clone(&rounds);
                tokio::spawn(async move {
                    for _ in 0..10 {
                        let patient = AcquisitionOptions::new().with_timeout(ms(60_000));
                        let keys = keys.iter().take(size);
                        let keys = keys.map(|key| LockConfig::new(*key).with_acquisition(patient));
                        let set = lock_all(&line, keys).await.unwrap();
                        sleep(ms(1)).await;
                        set.release().await.unwrap();
                        rounds.fetch_add(1, Ordering::Relaxed);
                    }
                })
            });
            for caller in callers {
                timeout(ms(20_000), caller).await.expect("a deadlock").unwrap();
            }
            assert_eq!(rounds.load(Ordering::Relaxed), 20);
        });
    }
}
