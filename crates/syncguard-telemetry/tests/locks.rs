//! Events of `lock`, guards and auto-extend, under a paused clock.

use std::time::Duration;

use crate::common::{KEY, Seen, Store, TTL, observed, take};
use syncguard_memory::authoring::hash_key;
use syncguard_memory::authoring::recipes::as_recipe;
use syncguard_memory::contract::{Holder, LookupRequest, ReleaseRequest};
use syncguard_memory::{
    AcquisitionOptions, AutoExtend, Backoff, CancellationToken, ErrorCode, Jitter, LockBackend,
    LockConfig, LossReason, MemoryBackend, acquire, lock, try_acquire,
};
use syncguard_telemetry::{EventKind, TelemetryHandle, with_telemetry};
use tokio::time::{advance, sleep, timeout};

const SECOND: Duration = Duration::from_secs(1);

/// Every 100 ms.
fn patient(retries: u32) -> AcquisitionOptions {
    AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_jitter(Jitter::None)
        .with_max_retries(retries)
}

fn kept() -> LockConfig {
    LockConfig::new(KEY).with_ttl(TTL).with_auto_extend(AutoExtend::new())
}

#[tokio::test(start_paused = true)]
async fn lock_tells_wait_and_hold() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    let output = lock(&backend, KEY, async |_| sleep(3 * SECOND).await).await;
    output.unwrap();
    let events = seen.events(&handle).await;
    let lines: Vec<_> = events.iter().map(crate::common::line).collect();
    assert_eq!(lines, ["acquire ok", "wait ok attempts=1", "hold ok 3000ms", "release ok"]);
    // All events of one call have the same lock id.
    assert!(events.iter().all(|event| event.lock_id_hash == events[0].lock_id_hash));
    assert!(events[..3].iter().all(|event| event.key_hash == Some(hash_key(KEY))));
}

/// Events of a recipe's locks name the recipe.
#[tokio::test(start_paused = true)]
async fn waits_and_holds_name_their_recipe() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    let config = as_recipe(LockConfig::new(KEY), "election");
    lock(&backend, config, async |_| ()).await.unwrap();
    lock(&backend, KEY, async |_| ()).await.unwrap();
    let events = seen.events(&handle).await;
    let recipes: Vec<_> = events.iter().map(|event| (event.kind.as_str(), event.recipe)).collect();
    let named = Some("election");
    assert_eq!(
        recipes[..4],
        [("acquire", None), ("wait", named), ("hold", named), ("release", None)]
    );
    assert!(recipes[4..].iter().all(|(_, recipe)| recipe.is_none()));
}

/// Where the label of the lock is at hand without a further request.
#[tokio::test(start_paused = true)]
async fn events_name_the_holder() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    let labels = async || -> Vec<_> {
        let events = seen.events(&handle).await;
        let told = events.iter().map(|event| {
            (event.kind, event.holder.as_ref().map(|holder| holder.label().to_owned()))
        });
        told.collect()
    };
    let one = || Some("one".to_owned());
    let config = LockConfig::new(KEY).with_ttl(TTL).with_holder("one").with_note("a note");
    let guard = acquire(&backend, config).await.unwrap();
    assert_eq!(labels().await, [(EventKind::Acquire, one()), (EventKind::Wait, one())]);
    // An attempt that finds the lock held is not told by whom; a wait in vain is, and so is a lookup.
    let other = LockConfig::new(KEY).with_holder("other").with_acquisition(patient(1));
    acquire(&backend, other).await.unwrap_err();
    let found = backend.lookup(LookupRequest::by_lock_id(guard.lock_id())).await.unwrap();
    assert!(found.is_some());
    assert_eq!(
        labels().await,
        [
            (EventKind::Acquire, None),
            (EventKind::Acquire, None),
            (EventKind::Lookup, one()),
            (EventKind::Wait, one()),
            (EventKind::Lookup, one()),
        ]
    );
    // A loss names the holder, too.
    let stolen = ReleaseRequest::new(guard.lock_id());
    assert!(backend.inner().release(stolen).await.unwrap().is_released());
    assert!(!guard.release().await.unwrap().is_released());
    assert_eq!(labels().await, [(EventKind::Hold, one()), (EventKind::Release, None)]);

    let unnamed = LockConfig::new(KEY).without_holder();
    lock(&backend, unnamed, async |_| ()).await.unwrap();
    assert!(labels().await.iter().all(|(_, label)| label.is_none()));
    // The label of the process, with the recipe in its note.
    lock(&backend, as_recipe(LockConfig::new(KEY), "election"), async |_| ()).await.unwrap();
    let here = Some(Holder::this_process().label().to_owned());
    let told = labels().await;
    assert_eq!(told.iter().filter(|(_, label)| *label == here).count(), 3, "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_in_vain_says_how_it_ended() {
    let store = Store::default();
    let (backend, handle, seen) = observed(store.clone());
    let _ = take(&store, KEY).await;

    let config = LockConfig::new(KEY).with_acquisition(patient(2));
    acquire(&backend, config.clone()).await.unwrap_err();
    assert_eq!(last(&seen, &handle).await, "wait fail locked !AcquisitionTimeout attempts=3 200ms");

    assert!(try_acquire(&backend, KEY).await.unwrap().is_busy());
    assert_eq!(last(&seen, &handle).await, "wait fail locked attempts=1");

    store.fail(ErrorCode::AuthFailed, 1);
    acquire(&backend, config.clone()).await.unwrap_err();
    assert_eq!(last(&seen, &handle).await, "wait fail !AuthFailed attempts=1");

    // Dropped in the second pause, then cancelled in the second pause.
    let limit = Duration::from_millis(150);
    assert!(timeout(limit, acquire(&backend, config.clone())).await.is_err());
    assert_eq!(last(&seen, &handle).await, "wait fail !Aborted attempts=2 150ms");
    let token = CancellationToken::new();
    let (given_up, ()) =
        tokio::join!(acquire(&backend, config.with_cancellation(token.clone())), async {
            sleep(limit).await;
            token.cancel();
        },);
    assert_eq!(given_up.unwrap_err().code(), ErrorCode::Aborted);
    assert_eq!(last(&seen, &handle).await, "wait fail !Aborted attempts=2 150ms");

    // A call with a bad key gives no event.
    acquire(&backend, "").await.unwrap_err();
    assert_eq!(seen.lines(&handle).await, [""; 0]);
}

async fn last(seen: &Seen, handle: &TelemetryHandle) -> String {
    seen.lines(handle).await.pop().unwrap()
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_cannot_be_renewed_is_lost_when_its_time_is_over() {
    let store = Store::default();
    let (backend, handle, seen) = observed(store.clone());
    let guard = acquire(&backend, kept()).await.unwrap();
    store.fail(ErrorCode::ServiceUnavailable, 1000);
    assert_eq!(guard.lost().await, LossReason::Expired);
    // The event comes at once, while the guard still exists.
    let mut lines = seen.lines(&handle).await;
    assert_eq!(lines.pop().unwrap(), "hold fail expired 30000ms");
    let renewals = lines.split_off(2);
    assert!(renewals.len() > 10, "{renewals:?}");
    assert!(renewals.iter().all(|line| line == "extend fail !ServiceUnavailable"), "{renewals:?}");
    guard.release().await.unwrap_err();
    assert_eq!(seen.lines(&handle).await, ["release fail !ServiceUnavailable"]);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_the_store_has_lost_is_told_at_the_next_renewal() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    let guard = acquire(&backend, kept()).await.unwrap();
    let stolen = ReleaseRequest::new(guard.lock_id());
    assert!(backend.inner().release(stolen).await.unwrap().is_released());
    assert_eq!(guard.lost().await, LossReason::NotHeld);
    let lines = seen.lines(&handle).await;
    let [extend, hold] = &lines[2..] else { panic!("{lines:?}") };
    assert_eq!(extend, "extend fail not-found");
    // A renewal comes up to a 32nd of its interval early, beside others.
    let held = hold.strip_prefix("hold fail not-held ").and_then(|it| it.strip_suffix("ms"));
    assert!((9_600..=10_000).contains(&held.unwrap().parse::<u64>().unwrap()), "{hold}");
    drop(guard);
    sleep(SECOND).await;
    assert_eq!(seen.lines(&handle).await, ["release fail not-found"]);
}

#[tokio::test(start_paused = true)]
async fn a_plain_guard_tells_its_loss_at_its_end_at_the_latest() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    let config = LockConfig::new(KEY).with_ttl(TTL);
    // The guard is dropped too late, without a look at it before. The hold ended with the TTL.
    let guard = acquire(&backend, config.clone()).await.unwrap();
    advance(40 * SECOND).await;
    drop(guard);
    sleep(SECOND).await;
    let lines = seen.lines(&handle).await;
    assert_eq!(lines[2], "hold fail expired 30000ms");
    assert!(lines[3].starts_with("release fail"), "{lines:?}");

    // A task waits for the loss.
    let guard = acquire(&backend, config.clone()).await.unwrap();
    assert_eq!(guard.lost().await, LossReason::Expired);
    assert_eq!(last(&seen, &handle).await, "hold fail expired 30000ms");
    drop(guard);

    // A task waits for the token.
    sleep(2 * SECOND).await;
    let guard = acquire(&backend, config).await.unwrap();
    guard.lost_token().cancelled().await;
    assert_eq!(last(&seen, &handle).await, "hold fail expired 30000ms");
}

#[tokio::test(start_paused = true)]
async fn every_end_of_a_guard_is_told_once() {
    let (backend, handle, seen) = observed(MemoryBackend::new());
    for config in [LockConfig::new(KEY), kept()] {
        let guard = acquire(&backend, config.clone()).await.unwrap();
        let (held, token) = (guard.held(), guard.lost_token());
        drop(guard);
        token.cancelled().await;
        assert_eq!(held.lost().await, LossReason::Released);
        sleep(SECOND).await;
        let lines = ["acquire ok", "wait ok attempts=1", "hold ok", "release ok"];
        assert_eq!(seen.lines(&handle).await, lines);

        // The work panics.
        let config = config.clone();
        let backend = backend.clone();
        let work =
            async move { lock(&backend, config, async |_| panic!("as the test wants it")).await };
        tokio::spawn(work).await.unwrap_err();
        sleep(SECOND).await;
        assert_eq!(seen.lines(&handle).await, lines);
    }
}

#[tokio::test(start_paused = true)]
async fn two_decorators_hear_of_everything_each() {
    let (inner, inner_handle, inner_seen) = observed(MemoryBackend::new());
    let outer_seen = Seen::default();
    let outer = with_telemetry(inner, outer_seen.options());
    lock(&outer, KEY, async |_| ()).await.unwrap();
    for (seen, handle) in [(&inner_seen, inner_handle), (&outer_seen, outer.telemetry())] {
        let events = seen.events(&handle).await;
        let mut kinds: Vec<_> = events.iter().map(|event| event.kind).collect();
        kinds.sort_by_key(|kind| kind.as_str());
        let all = [EventKind::Acquire, EventKind::Hold, EventKind::Release, EventKind::Wait];
        assert_eq!(kinds, all);
    }
}
