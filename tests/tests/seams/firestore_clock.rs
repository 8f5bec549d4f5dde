//! Locks live by the server's time: a wrong clock of a client takes none and uses up no tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use syncguard::recipes::{Missed, Schedule, TickOutcome, Ticks};
use syncguard_firestore::contract::{ExtendRequest, IsLockedRequest, ReleaseRequest};
use syncguard_firestore::gcloud_sdk::tonic::Code;
use syncguard_firestore::{
    CancellationToken, ExtendResult, FirestoreBackend, FirestoreOptions, LockBackend as _, NotHeld,
    ReleaseResult,
};
use syncguard_tests::calls::until;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::Clock;
use crate::firestore::errors::COMMIT;
use crate::firestore::gateway::Gateway;
use crate::firestore::operations::{extend, release};
use crate::firestore::support::{
    Raw, backend, backend_with, fresh, options, options_at, request, take,
};

fn by(clock: &Clock) -> FirestoreOptions {
    let clock = clock.clone();
    options().with_clock(move || clock.now())
}

/// Google's time counts, as the answers tell it.
#[tokio::test]
async fn no_clock_of_a_client_counts() -> Result<()> {
    const MINUTE: i64 = 60_000;
    for strict in [false, true] {
        let (url, clock) = (fresh(), Clock::default());
        let (holder_clock, right) = (Clock::default(), backend(&url).await);
        let holder = backend_with(&url, by(&holder_clock).with_strict_clock(strict)).await;
        let waiter = backend_with(&url, by(&clock).with_strict_clock(strict)).await;
        assert!(waiter.clock_drift().is_none());
        let held = take(&holder, "k", 60_000).await;
        let mut before = held.expires_at;
        for ahead in [8000, -8000, MINUTE, -60 * MINUTE, 60 * MINUTE, 0] {
            clock.set(ahead);
            assert!(waiter.acquire(request("k", 1)).await?.is_busy(), "{ahead}");
            let drift = waiter.clock_drift().context("a drift")?;
            let (lowest, highest) = (drift.lowest, drift.highest);
            assert!((lowest - 2..=highest + 2).contains(&ahead), "{drift:?} at {ahead} ms");

            holder_clock.set(-ahead);
            let extend = ExtendRequest::new(held.lock_id, Duration::from_secs(60))?;
            let ExtendResult::Extended { expires_at } = holder.extend(extend).await? else {
                bail!("not extended at {ahead} ms")
            };
            // A slow answer makes the bounds wide, and a fast one narrow.
            assert!(expires_at.as_millis() + 20_000 > before.as_millis(), "{ahead}");
            assert!(expires_at - before < Duration::from_secs(600), "{ahead}");
            before = expires_at;
            assert!(right.acquire(request("k", 1)).await?.is_busy(), "{ahead}");
        }
        assert!(holder.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
        // A takeover is late by the widths of holder and rival at most, and 250 ms are allowed.
        until("narrow", async || {
            waiter.is_locked(IsLockedRequest::new("k").unwrap()).await.unwrap();
            let drift = waiter.clock_drift().unwrap();
            drift.highest - drift.lowest <= 100
        })
        .await;
        // A lock that is over is taken over, by a machine whose clock is an hour behind too.
        let _left = take(&holder, "k", 1).await;
        clock.set(-60 * MINUTE);
        until("over", async || waiter.acquire(request("k", 1)).await.unwrap().is_acquired()).await;
    }
    Ok(())
}

/// Two processes with right clocks run each tick once, while the clock of a third one is set an hour ahead and an hour back.
/// The backend takes a tick only if the server's time has reached it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    const HOUR_MS: i64 = 3_600_000;
    let (url, clock) = (fresh(), Clock::default());
    let right = [backend(&url).await, backend(&url).await];
    let stepped = backend_with(&url, by(&clock)).await;
    let (ran, mut runs) = mpsc::unbounded_channel();
    let (stop, stops_stepped) = (CancellationToken::new(), CancellationToken::new());
    let mut processes = JoinSet::new();
    let mut start = |ticks: Ticks<FirestoreBackend>, stop: &CancellationToken| {
        let ran = ran.clone();
        processes.spawn(ticks.with_shutdown(stop.clone()).run(async move |tick| {
            let _ = ran.send(tick.scheduled_at.as_millis() / 1000);
        }));
    };
    for backend in &right {
        // A busy machine may be late, and then they make up for each tick.
        start(ticks(backend)?.with_missed(Missed::Each), &stop);
    }
    let by_clock = || {
        let shown = clock.clone();
        anyhow::Ok(ticks(&stepped)?.with_clock(Arc::new(move || shown.now())))
    };
    let mut seconds = Vec::new();
    for (step, hours) in [0, 1, 0, -1, 0].into_iter().enumerate() {
        clock.set(hours * HOUR_MS);
        if step == 1 {
            start(by_clock()?, &stops_stepped);
        }
        if hours != 0 {
            is_refused(&by_clock()?, hours).await?;
        }
        for _ in 0..3 {
            seconds.push(runs.recv().await.context("a process that runs")?);
        }
        if hours == -1 {
            stops_stepped.cancel();
        }
    }
    stop.cancel();
    for ended in processes.join_all().await {
        ended?;
    }
    while let Ok(second) = runs.try_recv() {
        seconds.push(second);
    }
    assert!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
    Ok(())
}

fn ticks(backend: &FirestoreBackend) -> Result<Ticks<FirestoreBackend>> {
    Ok(Ticks::new(backend.clone(), "stepped", Schedule::every(Duration::from_secs(1))?))
}

/// Tries for a tick by a clock that is off by this many hours, as a process that cron starts.
async fn is_refused(ticks: &Ticks<FirestoreBackend>, hours: i64) -> Result<()> {
    loop {
        match (hours, ticks.try_once(async |_| ()).await?) {
            // By a tick of another process.
            (_, TickOutcome::Busy(_)) => tokio::time::sleep(Duration::from_millis(5)).await,
            (1, TickOutcome::TooEarly { wait }) if wait.as_secs() >= 3590 => return Ok(()),
            (-1, TickOutcome::Taken) => return Ok(()),
            (_, outcome) => bail!("a clock off by {hours} h: {outcome:?}"),
        }
    }
}

/// A clock that is moved by hand, and its handle.
fn hand_clock() -> (impl Fn() -> SystemTime + Clone + Send + Sync, HandOfClock) {
    let millis = Arc::new(AtomicU64::new(1_800_000_000_000));
    let hand = HandOfClock(Arc::clone(&millis));
    let now = move || SystemTime::UNIX_EPOCH + Duration::from_millis(millis.load(Ordering::SeqCst));
    (now, hand)
}

struct HandOfClock(Arc<AtomicU64>);

impl HandOfClock {
    fn advance(&self, millis: u64) {
        self.0.fetch_add(millis, Ordering::SeqCst);
    }
}

/// The memory counts as long as the lock is live by the clock, to the millisecond.
#[tokio::test]
async fn what_is_remembered_is_over_when_the_lock_is() -> Result<()> {
    const EXPIRED: ReleaseResult = ReleaseResult::NotHeld(NotHeld::Expired);
    let url = fresh();
    let raw = Raw::new(&url);
    let (clock, hand) = hand_clock();
    let ours = raw.backend(&url, &FirestoreOptions::new().with_store_clock(clock.clone()));
    let other = backend_with(&url, options().with_store_clock(clock)).await;

    // Live until one second after its expiry: one call, without a query.
    let lock = take(&ours, "k", 5000).await;
    hand.advance(5999);
    raw.calls();
    assert!(extend(&ours, lock.lock_id).await?);
    hand.advance(60_999);
    assert!(release(&ours, lock.lock_id).await?.is_released());
    assert_eq!(raw.calls(), 2);

    // A millisecond later, a query finds it expired, and nothing is written.
    let lock = take(&ours, "k", 5000).await;
    hand.advance(6000);
    let stored = raw.get("locks/k").await;
    raw.calls();
    assert!(!extend(&ours, lock.lock_id).await?);
    assert_eq!(release(&ours, lock.lock_id).await?, EXPIRED);
    assert_eq!(raw.calls(), 2);
    assert_eq!(raw.get("locks/k").await, stored);

    // The lock is over by our knowledge, but was extended elsewhere: it is still ours.
    let lock = take(&ours, "k", 5000).await;
    assert!(extend(&other, lock.lock_id).await?);
    hand.advance(6000);
    assert!(release(&ours, lock.lock_id).await?.is_released());

    // The lock is live by our knowledge, but was shortened elsewhere: it is over.
    let lock = take(&ours, "k", 60_000).await;
    let shorter = ExtendRequest::new(lock.lock_id, Duration::from_millis(1))?;
    assert!(other.extend(shorter).await?.is_extended());
    hand.advance(1001);
    assert!(!extend(&ours, lock.lock_id).await?);
    assert_eq!(release(&ours, lock.lock_id).await?, EXPIRED);

    // Expired and taken by another caller: the successor's lock stays.
    let lock = take(&ours, "k", 5000).await;
    hand.advance(6000);
    let next = take(&other, "k", 60_000).await;
    assert!(!extend(&ours, lock.lock_id).await?);
    assert!(!release(&ours, lock.lock_id).await?.is_released());
    assert!(release(&other, next.lock_id).await?.is_released());
    Ok(())
}

#[tokio::test]
async fn cleanup_deletes_what_is_long_over_and_nothing_else() -> Result<()> {
    let url = fresh();
    let raw = Raw::new(&url);
    let (clock, hand) = hand_clock();
    let plain = backend_with(&url, options().with_store_clock(clock.clone())).await;
    let tidy = options().with_store_clock(clock).with_cleanup_in_is_locked(true);
    let tidy = backend_with(&url, tidy).await;
    for key in ["kept", "old"] {
        let _expires = take(&plain, key, 5000).await;
    }
    hand.advance(1);
    let _expires = take(&plain, "recent", 5000).await;
    // One second of tolerance, and two for clocks that are behind.
    hand.advance(7999);
    for (backend, key) in [(&plain, "kept"), (&tidy, "recent"), (&tidy, "old")] {
        assert!(!backend.is_locked(IsLockedRequest::new(key)?).await?);
    }
    until("tidy", async || raw.ids("locks").await == ["kept", "recent"]).await;
    assert_eq!(raw.ids("fence_counters").await, ["fence:kept", "fence:old", "fence:recent"]);
    assert_eq!(take(&plain, "old", 1).await.fence.get(), 2);
    Ok(())
}

/// The lock of the lost commit may have been seen, and its time is over before the retry: one lock id has one fence.
#[tokio::test]
async fn a_lost_commit_whose_lock_is_over_stays_unknown() -> Result<()> {
    let (gateway, url, reads) = (Gateway::start(), fresh(), AtomicU64::new(0));
    let later = move || Duration::from_secs(120 * reads.fetch_add(1, Ordering::Relaxed));
    let options = options_at(gateway.port).with_store_clock(move || SystemTime::now() + later());
    let slow = backend_with(&url, options).await;
    gateway.lose_answer(COMMIT, Code::Unavailable);
    let error = slow.acquire(request("slow", 60_000)).await.unwrap_err();
    assert!(error.is_outcome_unknown(), "{error:?}");
    Ok(())
}
