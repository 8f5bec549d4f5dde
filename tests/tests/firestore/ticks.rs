//! Ticks of a process whose clock is wrong.
//!
//! The clients' clocks decide about locks here, and the backend of the process has its wrong clock too. The backend learns
//! from each answer by how much its clock is at most ahead of the server's, and takes a tick only if the server's time has
//! reached it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::CancellationToken;
use syncguard::recipes::{Missed, Schedule, TickOutcome, Ticks};
use syncguard_firestore::FirestoreBackend;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::firestore::support::{backend, backend_with, fresh, options};

const SECOND: Duration = Duration::from_secs(1);

/// A clock that is off by some hours. Clones are the same clock.
#[derive(Clone, Default)]
struct Clock(Arc<AtomicI64>);

impl Clock {
    fn now(&self) -> SystemTime {
        let hours = self.0.load(Ordering::SeqCst);
        let by = Duration::from_secs(3600 * hours.unsigned_abs());
        if hours < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }
}

fn ticks(backend: &FirestoreBackend) -> Result<Ticks<FirestoreBackend>> {
    Ok(Ticks::new(backend.clone(), "stepped", Schedule::every(SECOND)?))
}

/// Two processes with right clocks run the ticks of a schedule, while the clock of a third one is set an hour ahead and an
/// hour back: it runs nothing then, uses up no coming tick, and the others run each tick once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clock_that_is_stepped_uses_up_no_tick() -> Result<()> {
    let (url, clock) = (fresh(), Clock::default());
    let shown = clock.clone();
    let stepped = backend_with(&url, options().with_clock(move || shown.now())).await;
    let by_clock = || {
        let shown = clock.clone();
        anyhow::Ok(ticks(&stepped)?.with_clock(Arc::new(move || shown.now())))
    };
    let (ran, mut runs) = mpsc::unbounded_channel();
    let (stop, stops_stepped) = (CancellationToken::new(), CancellationToken::new());
    let mut processes = JoinSet::new();
    let mut start = |ticks: Ticks<FirestoreBackend>, stop: &CancellationToken| {
        let ran = ran.clone();
        processes.spawn(ticks.with_shutdown(stop.clone()).run(async move |tick| {
            let _ = ran.send(tick.scheduled_at().as_millis() / 1000);
        }));
    };
    for _ in 0..2 {
        // A busy machine may be late, and then they make up for each tick.
        start(ticks(&backend(&url).await)?.with_missed(Missed::Each), &stop);
    }
    let mut seconds = Vec::new();
    for hours in [0, 1, 0, -1, 0] {
        clock.0.store(hours, Ordering::SeqCst);
        if seconds.len() == 3 {
            start(by_clock()?, &stops_stepped);
        }
        if hours != 0 {
            refuses(&by_clock()?, hours).await?;
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
    ensure!(seconds.windows(2).all(|pair| pair[1] == pair[0] + 1), "{seconds:?}");
    Ok(())
}

/// Tries for a tick by a clock that is off by this many hours, as a process that cron starts.
async fn refuses(ticks: &Ticks<FirestoreBackend>, hours: i64) -> Result<()> {
    loop {
        match (hours, ticks.try_once(async |_| ()).await?) {
            // By a tick of another process.
            (_, TickOutcome::Held(_)) => sleep(Duration::from_millis(5)).await,
            (1, TickOutcome::TooEarly { wait }) if wait > SECOND * 3590 => return Ok(()),
            (-1, TickOutcome::Taken) => return Ok(()),
            (_, outcome) => bail!("a clock off by {hours} h: {outcome:?}"),
        }
    }
}
