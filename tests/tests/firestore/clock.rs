//! The clocks of the clients decide about locks here, so a wrong one is noticed, and uses up no tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail};
use syncguard::recipes::{Missed, Schedule, TickOutcome, Ticks};
use syncguard_firestore::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_firestore::{
    CancellationToken, DriftLevel, ErrorCode, FirestoreBackend, FirestoreOptions, LockBackend as _,
};
use syncguard_tests::calls::until;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::firestore::support::{backend, backend_with, fresh, options, request, take};

/// A clock that can be set. Clones are the same clock.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    /// Puts it this many milliseconds ahead of the machine's.
    fn set(&self, ahead: i64) {
        self.0.store(ahead, Ordering::SeqCst);
    }

    fn now(&self) -> SystemTime {
        let ahead = self.0.load(Ordering::SeqCst);
        let by = Duration::from_millis(ahead.unsigned_abs());
        if ahead < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }

    fn options(&self) -> FirestoreOptions {
        let clock = self.clone();
        options().with_clock(move || clock.now())
    }
}

#[tokio::test]
async fn a_wrong_clock_is_noticed() -> Result<()> {
    let url = fresh();
    let clock = Clock::default();
    let loose = backend_with(&url, clock.options()).await;
    let strict = backend_with(&url, clock.options().with_strict_clock(true)).await;
    assert!(loose.clock_drift().is_none());
    for (step, (millis, level)) in [
        (0, DriftLevel::Fine),
        (-350, DriftLevel::Warn),
        (350, DriftLevel::Warn),
        (-800, DriftLevel::Block),
        (800, DriftLevel::Block),
        (0, DriftLevel::Fine),
    ]
    .into_iter()
    .enumerate()
    {
        clock.set(millis);
        // A slow answer may agree with the earlier knowledge.
        until("noticed", async || {
            for backend in [&loose, &strict] {
                backend.is_locked(IsLockedRequest::new("k").unwrap()).await.unwrap();
            }
            [&loose, &strict].map(|it| it.clock_drift().unwrap().level()) == [level; 2]
        })
        .await;
        let drift = loose.clock_drift().unwrap();
        let (lowest, highest) = drift.bounds_millis();
        assert!((lowest - 2..=highest + 2).contains(&millis), "{drift:?} at {millis} ms");

        // A strict backend neither acquires nor calls a key locked. It releases with any clock.
        let key = format!("k{step}");
        let is_blocked = level == DriftLevel::Block;
        let lock = take(&loose, &key, 60_000).await;
        for is_held in [true, false] {
            match strict.acquire(request(&key, 60_000)).await {
                Ok(answer) => assert_eq!((answer.is_busy(), is_blocked), (is_held, false)),
                Err(error) => {
                    assert_eq!((error.code(), is_blocked), (ErrorCode::ServiceUnavailable, true));
                }
            }
            if is_held {
                assert!(strict.release(ReleaseRequest::new(lock.lock_id)).await?.is_released());
            }
        }
    }
    Ok(())
}

/// Two processes with right clocks run each tick once, while the clock of a third one is set an hour ahead and an hour back.
/// The backend learns from each answer by how much its clock is at most ahead of the server's, and takes a tick only if the
/// server's time has reached it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    const HOUR_MS: i64 = 3_600_000;
    let (url, clock) = (fresh(), Clock::default());
    let right = [backend(&url).await, backend(&url).await];
    let stepped = backend_with(&url, clock.options()).await;
    let (ran, mut runs) = mpsc::unbounded_channel();
    let (stop, stops_stepped) = (CancellationToken::new(), CancellationToken::new());
    let mut processes = JoinSet::new();
    let mut start = |ticks: Ticks<FirestoreBackend>, stop: &CancellationToken| {
        let ran = ran.clone();
        processes.spawn(ticks.with_shutdown(stop.clone()).run(async move |tick| {
            let _ = ran.send(tick.scheduled_at().as_millis() / 1000);
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
