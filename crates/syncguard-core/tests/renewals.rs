//! Renewals of several locks at a time.

use std::future::poll_fn;
use std::pin::pin;
use std::task::Poll;

use crate::common::{FaultyBackend, Trouble, is_locked, ms, runtime};
use syncguard_core::contract::{AcquireRequest, AcquireResult, ExtendRequest, ReleaseRequest};
use syncguard_core::{
    AutoExtend, ErrorCode, ExtendResult, LockBackend as _, LockConfig, LockGuard, LossReason,
    ReleaseResult, acquire,
};
use tokio::time::{Instant, sleep};

type Guard = LockGuard<FaultyBackend>;

/// Locks with a TTL of 30 s, one each millisecond, with the times of their acquires.
async fn hold(backend: &FaultyBackend, count: usize) -> Vec<(Instant, Guard)> {
    let mut guards = Vec::new();
    for number in 0..count {
        let config = LockConfig::new(format!("key {number}")).with_ttl(ms(30_000));
        let (sent, config) = (Instant::now(), config.with_auto_extend(AutoExtend::new()));
        guards.push((sent, acquire(backend, config).await.unwrap()));
        sleep(ms(1)).await;
    }
    guards
}

fn are_valid(guards: &[(Instant, Guard)]) -> bool {
    guards.iter().all(|(_, guard)| !guard.is_lost())
}

#[tokio::test(start_paused = true)]
async fn locks_that_are_due_at_about_the_same_time_are_renewed_together_and_never_late() {
    let backend = FaultyBackend::new();
    let guards = hold(&backend, 500).await;
    sleep(ms(10_000)).await;
    let batches = backend.take_batches();
    assert!(batches.len() <= 8, "{}", batches.len());
    let mut renewed = 0;
    for (at, ids) in &batches {
        assert!((2..=100).contains(&ids.len()), "{}", ids.len());
        renewed += ids.len();
        for id in ids {
            let (sent, _) = guards.iter().find(|(_, guard)| guard.lock_id() == *id).unwrap();
            let age = at.duration_since(*sent);
            // A timer may be a millisecond late.
            assert!(age >= ms(10_000) * 31 / 32 && age <= ms(10_001), "{age:?}");
        }
    }
    // A lock that is alone with its moment goes alone.
    assert_eq!(renewed + backend.extends() as usize, 500);
    for _ in 0..3 {
        sleep(ms(10_000)).await;
        assert!(backend.take_batches().len() <= 8);
    }
    assert!(are_valid(&guards));
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_its_batch_leaves_out_goes_alone_and_delays_no_other() {
    let backend = FaultyBackend::new();
    let mut guards = hold(&backend, 20).await;
    let (busy, gone) = (guards[3].1.lock_id(), guards.remove(7).1);
    *backend.behaviour.left_out.lock().unwrap() = Some(busy);
    backend.store.release(ReleaseRequest::new(gone.lock_id())).await.unwrap();
    // The lock that goes alone hangs.
    backend.on_extend().before = ms(3_600_000);
    sleep(ms(10_000)).await;
    let now = backend.store.now();
    for (_, guard) in guards.iter().filter(|(_, guard)| guard.lock_id() != busy) {
        assert!(guard.expires_at() - now > ms(29_000));
    }
    assert!(!gone.is_lost() && !guards[3].1.is_lost());
    *backend.on_extend() = Trouble::default();
    // Tried again after half of the time that was left.
    sleep(ms(12_000)).await;
    assert_eq!(gone.lost().await, LossReason::NotHeld);
    sleep(ms(60_000)).await;
    assert!(are_valid(&guards));
}

#[tokio::test(start_paused = true)]
async fn a_slow_batch_delays_no_other_and_its_locks_are_tried_again_one_by_one() {
    let backend = FaultyBackend::new();
    let mut guards = hold(&backend, 10).await;
    sleep(ms(5_000)).await;
    guards.extend(hold_more(&backend).await);
    backend.on_batch().before = ms(3_600_000);
    sleep(ms(5_010)).await;
    assert!(!backend.take_batches().is_empty());
    let alone = backend.extends();
    *backend.on_batch() = Trouble::default();
    sleep(ms(5_000)).await;
    let later = backend.take_batches();
    assert_eq!(later.iter().map(|(_, ids)| ids.len()).sum::<usize>(), 10);
    assert_eq!(backend.extends(), alone, "the first batch still hangs");
    sleep(ms(10_000)).await;
    assert!(backend.extends() >= alone + 9, "each alone");
    sleep(ms(60_000)).await;
    assert!(are_valid(&guards));
}

/// Ten more locks at one moment.
async fn hold_more(backend: &FaultyBackend) -> Vec<(Instant, Guard)> {
    let mut guards = Vec::new();
    for number in 0..10 {
        let config = LockConfig::new(format!("later key {number}")).with_ttl(ms(30_000));
        let guard = acquire(backend, config.with_auto_extend(AutoExtend::new())).await.unwrap();
        guards.push((Instant::now(), guard));
    }
    guards
}

#[tokio::test(start_paused = true)]
async fn a_guard_that_goes_in_the_middle_of_a_batch_harms_no_other() {
    let backend = FaultyBackend::new();
    let mut guards = hold_more(&backend).await;
    (backend.on_batch().before, backend.on_batch().after) = (ms(500), ms(500));
    for is_dropped in [true, false] {
        // The batch has all of them, and the first has begun it.
        while backend.take_batches().is_empty() {
            sleep(ms(1)).await;
        }
        sleep(ms(400)).await;
        let (_, first) = guards.remove(0);
        if is_dropped {
            drop(first);
        } else {
            assert_eq!(first.release().await.unwrap(), ReleaseResult::Released);
        }
        sleep(ms(1_000)).await;
        let key = format!("later key {}", u8::from(!is_dropped));
        assert!(!is_locked(&backend, &key).await);
        let now = backend.store.now();
        let left = |guard: &Guard| guard.expires_at() - now;
        assert!(guards.iter().all(|(_, guard)| left(guard) > ms(28_000)));
    }
    assert_eq!(backend.extends(), 0);
}

#[tokio::test(start_paused = true)]
async fn after_a_failed_batch_each_lock_is_settled_alone_and_then_they_go_together_again() {
    let lost = Trouble { reply_lost: true, ..Trouble::default() };
    let broken = Trouble { breaks: 1, ..Trouble::default() };
    let panicked = Trouble { panics: true, ..Trouble::default() };
    let refused = Trouble { fails: Some(ErrorCode::ServiceUnavailable), ..Trouble::default() };
    for trouble in [lost, broken, panicked, refused] {
        let backend = FaultyBackend::new();
        let guards = hold_more(&backend).await;
        *backend.on_batch() = trouble;
        sleep(ms(10_001)).await;
        assert_eq!(backend.take_batches().len(), 1);
        *backend.on_batch() = Trouble::default();
        sleep(ms(5_000)).await;
        assert!(backend.take_batches().is_empty(), "{trouble:?}");
        assert!(backend.extends() >= 10, "{trouble:?}");
        let now = backend.store.now();
        for (_, guard) in &guards {
            assert!(guard.expires_at() - now > ms(24_000), "{trouble:?}");
        }
        sleep(ms(20_000)).await;
        assert!(!backend.take_batches().is_empty(), "{trouble:?}");
        assert!(are_valid(&guards));
    }
}

#[test]
fn a_batch_waits_for_no_runtime_but_that_of_its_callers() {
    let backend = FaultyBackend::new();
    let take = async |key: &str| {
        let request = AcquireRequest::new(key, ms(30_000)).unwrap();
        let AcquireResult::Acquired(lock) = backend.acquire(request).await.unwrap() else {
            panic!("the key is free")
        };
        let request = ExtendRequest::new(lock.lock_id, ms(30_000)).unwrap();
        request.with_expected_expiry(lock.expires_at).with_others(true)
    };
    let stands_still = runtime();
    stands_still.block_on(async {
        let mut extend = pin!(backend.extend(take("first").await));
        poll_fn(|context| Poll::Ready(extend.as_mut().poll(context).is_pending())).await
    });
    runtime().block_on(async {
        let (one, other) = (take("one").await, take("other").await);
        let (one, other) = tokio::join!(backend.extend(one), backend.extend(other));
        assert!(one.unwrap().is_extended() && other.unwrap().is_extended());
    });
    assert_eq!(backend.take_batches().len(), 1);
    // The runtime ends with an extend in its queue.
    drop(stands_still);
}

#[tokio::test(start_paused = true)]
async fn extends_of_one_lock_do_not_share_a_batch() {
    let backend = FaultyBackend::new();
    let guards = hold_more(&backend).await;
    let extend = |at: usize| {
        let guard = &guards[at].1;
        let request = ExtendRequest::new(guard.lock_id(), ms(60_000)).unwrap();
        backend.extend(request.with_expected_expiry(guard.expires_at()).with_others(true))
    };
    let (one, again, other) = tokio::join!(extend(0), extend(0), extend(1));
    assert!(other.unwrap().is_extended());
    let of_one = [one.unwrap(), again.unwrap()];
    assert!(of_one.iter().any(|result| result.is_extended()));
    assert!(of_one.iter().any(|result| matches!(result, ExtendResult::Mismatch { .. })));
    let batches = backend.take_batches();
    assert_eq!(batches.iter().map(|(_, ids)| ids.len()).collect::<Vec<_>>(), [2]);
}
