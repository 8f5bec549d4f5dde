//! A process that uses a recipe, until it is told to stop (SIGTERM) or killed.
//!
//! `recipes-worker RECIPE LOCKS-URL HISTORY-FILE NAME KEY TTL-IN-MS [PERMITS]`
//!
//! The recipes: `election`, which resigns at SIGUSR1; `semaphore`, with four tasks; `hold`, which takes all
//! permits and keeps them; `cron`, which tries for its
//! turn in each period of two seconds, and keeps it for a minimum time.

use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result, bail};
use syncguard::recipes::{Election, Semaphore};
use syncguard::{AcquisitionOptions, CancellationToken, DynBackend, LockConfig, try_lock};
use syncguard_history::Recording;
use syncguard_history::{Entry, Recorder};
use syncguard_tests::fleet::connect;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinSet;
use tokio::time::sleep;

/// Of the cron.
const PERIOD: Duration = Duration::from_secs(2);
const MIN_HOLD: Duration = Duration::from_millis(1_500);

type Backend = Recording<DynBackend>;

struct Worker {
    backend: Backend,
    recorder: Recorder,
    key: String,
    ttl: Duration,
    stop: CancellationToken,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [recipe, locks, file, name, key, ttl, rest @ ..] = arguments.as_slice() else {
        bail!("recipes-worker RECIPE LOCKS HISTORY-FILE NAME KEY TTL-IN-MS [PERMITS]");
    };
    let (stop, mut terminated) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let recorder = Recorder::to_file(name, Path::new(file))?;
    let connected = connect(locks).await?;
    let worker = Worker {
        backend: Recording::new(connected.backend.clone(), recorder.clone()),
        recorder: recorder.clone(),
        key: key.clone(),
        ttl: Duration::from_millis(ttl.parse()?),
        stop: stop.clone(),
    };
    tokio::spawn(async move {
        terminated.recv().await;
        stop.cancel();
    });
    match recipe.as_str() {
        "election" => worker.election().await?,
        "semaphore" => {
            let permits = rest.first().context("PERMITS")?.parse()?;
            worker.semaphore(permits).await?;
        }
        "hold" => worker.hold(rest.first().context("PERMITS")?.parse()?).await?,
        "cron" => worker.cron(rest.first().context("SKEW-IN-MS")?.parse()?).await?,
        other => bail!("no recipe {other}"),
    }
    recorder.note(Entry::Quiet { live: 0, tasks: 0, borrowed: connected.borrowed() });
    Ok(())
}

impl Worker {
    async fn election(self) -> Result<()> {
        let election = Election::new(self.backend, self.key)
            .with_ttl(self.ttl)
            .with_shutdown(self.stop)
            .with_grace(Duration::from_millis(50));
        let (handle, mut resign) = (election.handle(), signal(SignalKind::user_defined1())?);
        tokio::spawn(async move {
            while resign.recv().await.is_some() {
                handle.resign();
            }
        });
        let recorder = &self.recorder;
        let run = election.run(async |term| {
            term.lost().await;
            let left = u64::try_from(term.valid_for().as_micros()).unwrap_or(u64::MAX);
            recorder.note(Entry::Told { left });
        });
        run.await.context("the election")
    }

    async fn semaphore(self, permits: u32) -> Result<()> {
        self.recorder.note(Entry::Semaphore { key: self.key.clone(), permits: u64::from(permits) });
        let patient = AcquisitionOptions::patient(Duration::from_secs(20));
        let semaphore = Semaphore::new(self.backend, self.key, permits)?
            .with_ttl(self.ttl)
            .with_acquisition(patient);
        let mut tasks = JoinSet::new();
        for task in 0..4_u64 {
            let (semaphore, stop) = (semaphore.clone(), self.stop.clone());
            tasks.spawn(async move {
                let mut round = task;
                while !stop.is_cancelled() {
                    // Errors are on the record.
                    let permit = tokio::select! {
                        permit = semaphore.acquire() => permit,
                        () = stop.cancelled() => return,
                    };
                    let Ok(permit) = permit else {
                        sleep(Duration::from_millis(20)).await;
                        continue;
                    };
                    round += 1;
                    let work = Duration::from_millis(5 + round * 7 % 23);
                    tokio::select! {
                        () = sleep(work) => {}
                        _ = permit.lost() => {}
                    }
                    if round.is_multiple_of(3) {
                        let _ = permit.release().await;
                    }
                }
            });
        }
        tasks.join_all().await;
        // What was dropped is given back in the background.
        sleep(Duration::from_millis(300)).await;
        Ok(())
    }

    async fn hold(self, permits: u32) -> Result<()> {
        let patient = AcquisitionOptions::patient(Duration::from_secs(20));
        let semaphore = Semaphore::new(self.backend, self.key, permits)?
            .with_ttl(self.ttl)
            .with_acquisition(patient);
        let mut held = Vec::new();
        for _ in 0..permits {
            held.push(semaphore.acquire().await?);
        }
        self.stop.cancelled().await;
        Ok(())
    }

    /// By a clock that is `skew` milliseconds late.
    async fn cron(self, skew: u64) -> Result<()> {
        let period = u64::try_from(PERIOD.as_millis())?;
        while !self.stop.is_cancelled() {
            let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
            let next = (now.saturating_sub(skew) / period + 1) * period + skew;
            tokio::select! {
                () = sleep(Duration::from_millis(next - now)) => {}
                () = self.stop.cancelled() => break,
            }
            let job = LockConfig::new(self.key.as_str()).with_ttl(self.ttl).with_min_hold(MIN_HOLD);
            // Errors are on the record; as in any cron, the next period is another chance. An emulator's
            // first answer can take longer than the time limit.
            if let Ok(Some(guard)) = try_lock(&self.backend, job).await {
                sleep(Duration::from_millis(10)).await;
                let _ = guard.release().await;
            }
        }
        Ok(())
    }
}
