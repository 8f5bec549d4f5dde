//! The work of processes that use recipes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use syncguard::recipes::{Election, ElectionHandle, Missed, Schedule, Semaphore, Ticks, lock_all};
use syncguard::{
    AcquisitionOptions, CancellationToken, DynBackend, LockConfig, TryAcquired, try_acquire,
};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::stalls::Stalls;
use crate::register::Registers;
use syncguard_history::Random;
use syncguard_history::Recording;
use syncguard_history::{Entry, Recorder};

type Backend = Recording<DynBackend>;

/// One recipe, on one key.
#[derive(Debug)]
pub struct Recipe {
    /// The backend of the locks.
    pub backend: Backend,
    /// The recorder for further events.
    pub recorder: Recorder,
    /// The key of the recipe.
    pub key: String,
    /// The TTL of its locks.
    pub ttl: Duration,
    /// Ends the work when it fires.
    pub stop: CancellationToken,
}

impl Recipe {
    /// Leads as long as possible, again and again; `resign` gets a closure that makes it resign.
    ///
    /// Records the time that was left when the work was told to stop, unless the process did not run for half of the
    /// notice: no library can tell such a process in time.
    ///
    /// # Errors
    ///
    /// If the election fails for good.
    pub async fn election(self, resign: impl FnOnce(ElectionHandle)) -> Result<()> {
        let election = Election::new(self.backend, self.key)
            .with_ttl(self.ttl)
            .with_shutdown(self.stop)
            .with_grace(Duration::from_millis(50));
        resign(election.handle());
        let (recorder, notice) = (&self.recorder, self.ttl / 5);
        let run = election.run(async |term| {
            let stalls = Stalls::watch();
            term.lost().await;
            let left = u64::try_from(term.valid_for().as_micros()).unwrap_or(u64::MAX);
            if left > 0 || stalls.longest() < notice / 2 {
                recorder.note(Entry::Told { left });
            }
        });
        run.await.context("the election")
    }

    /// Four tasks take permits and give them back, by release and by drop.
    ///
    /// # Errors
    ///
    /// For a bad number of permits.
    pub async fn semaphore(self, permits: u32) -> Result<()> {
        let semaphore = self.permits(permits)?;
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
        // Dropped permits are given back in the background.
        sleep(Duration::from_millis(300)).await;
        Ok(())
    }

    /// Takes all permits and keeps them.
    ///
    /// # Errors
    ///
    /// If it does not get all permits.
    pub async fn hold(self, permits: u32) -> Result<()> {
        let semaphore = self.permits(permits)?;
        let mut held = Vec::new();
        for _ in 0..permits {
            held.push(semaphore.acquire().await?);
        }
        self.stop.cancelled().await;
        Ok(())
    }

    fn permits(&self, permits: u32) -> Result<Semaphore<Backend>> {
        self.recorder.note(Entry::Semaphore { key: self.key.clone(), permits: u64::from(permits) });
        let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(20));
        let semaphore = Semaphore::new(self.backend.clone(), self.key.as_str(), permits)?;
        Ok(semaphore.with_ttl(self.ttl).with_acquisition(patient))
    }

    /// Tries for its turn in each period, with a clock that is `skew` milliseconds late, and keeps the lock for a
    /// minimum time.
    ///
    /// # Errors
    ///
    /// For a clock before 1970.
    pub async fn cron(self, period: Duration, min_hold: Duration, skew: u64) -> Result<()> {
        let period = u64::try_from(period.as_millis())?;
        while !self.stop.is_cancelled() {
            let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
            let next = (now.saturating_sub(skew) / period + 1) * period + skew;
            tokio::select! {
                () = sleep(Duration::from_millis(next - now)) => {}
                () = self.stop.cancelled() => break,
            }
            let job = LockConfig::new(self.key.as_str()).with_ttl(self.ttl).with_min_hold(min_hold);
            // Errors are on the record. As in any cron, the next period is another chance. An emulator's first answer
            // can take longer than the time limit.
            let tried = try_acquire(&self.backend, job).await;
            if let Ok(TryAcquired::Acquired(guard)) = tried {
                sleep(Duration::from_millis(10)).await;
                let _ = guard.release().await;
            }
        }
        Ok(())
    }
}

/// The attempts of the ticks that have several.
const ATTEMPTS: u16 = 50;

/// The period of the schedules.
const PERIOD: Duration = Duration::from_secs(1);

impl Recipe {
    /// Runs the ticks of many schedules, by a clock that is off by this many milliseconds. The ticks of the first half of
    /// the keys run at most once; each tick of the second half is tried until it is done.
    ///
    /// # Errors
    ///
    /// If a schedule fails for good.
    pub async fn ticks(self, keys: u32, off: i64) -> Result<()> {
        let clock = Arc::new(move || {
            let by = Duration::from_millis(off.unsigned_abs());
            if off < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
        });
        let mut tasks = JoinSet::new();
        for number in 0..keys {
            let key = format!("{}-{number}", self.key);
            let (attempts, missed) =
                if number < keys / 2 { (1, Missed::Skip) } else { (ATTEMPTS, Missed::Each) };
            let ticks = Ticks::new(self.backend.clone(), key.as_str(), Schedule::every(PERIOD)?)
                .with_ttl(self.ttl)
                .with_attempts(attempts)
                .with_missed(missed)
                .with_shutdown(self.stop.clone())
                .with_clock(clock.clone());
            let recorder = self.recorder.clone();
            tasks.spawn(ticks.run(async move |tick| {
                recorder.note(Entry::Tick {
                    key: key.clone(),
                    tick: tick.scheduled_at().as_millis() / 1000,
                    attempt: tick.attempt().into(),
                    attempts: attempts.into(),
                });
                // Long enough that a kill meets some of them.
                sleep(if attempts > 1 { PERIOD / 4 } else { PERIOD / 50 }).await;
            }));
        }
        for ended in tasks.join_all().await {
            ended.context("a schedule")?;
        }
        Ok(())
    }
}

/// All recipes in one process.
#[derive(Debug)]
pub struct All {
    /// The backend of the locks.
    pub backend: Backend,
    /// The registers that the sets of locks protect.
    pub registers: Registers,
    /// The recorder for further events.
    pub recorder: Recorder,
    /// The TTL of the locks.
    pub ttl: Duration,
    /// When it ends.
    pub stop: CancellationToken,
}

/// The permits of the semaphores of [`All`].
const PERMITS: u32 = 3;

/// How many registers the sets of [`All`] share.
pub const ACCOUNTS: u64 = 5;

/// The name of a register that a set of locks protects, and of its lock.
#[must_use]
pub fn account(number: u64) -> String {
    format!("account-{number}")
}

impl All {
    /// Uses the recipes until it is stopped.
    ///
    /// # Errors
    ///
    /// If a recipe fails for good.
    pub async fn run(self, random: &mut Random) -> Result<()> {
        let resigning = Random::new(random.number());
        let sets = Random::new(random.number());
        let handles = |handle: ElectionHandle| {
            let (stop, mut random) = (self.stop.clone(), resigning);
            tokio::spawn(async move {
                while !stop.is_cancelled() {
                    sleep(random.millis(300, 1500)).await;
                    handle.resign();
                }
            });
        };
        // A period below the minimum hold would never have a second run.
        let (period, kept) = (Duration::from_secs(2), Duration::from_millis(1300));
        let (election, semaphore, cron, sets) = tokio::join!(
            self.recipe("leader").election(handles),
            self.recipe("downloads").semaphore(PERMITS),
            self.recipe("nightly").cron(period, kept, random.below(300)),
            self.sets(sets),
        );
        // An election and a set end at their first error that no waiting mends.
        election.and(semaphore).and(cron).and(sets)
    }

    fn recipe(&self, key: &str) -> Recipe {
        let (backend, recorder) = (self.backend.clone(), self.recorder.clone());
        Recipe { backend, recorder, key: key.to_owned(), ttl: self.ttl, stop: self.stop.clone() }
    }

    /// Moves an amount between two accounts, under both their locks.
    async fn sets(&self, mut random: Random) -> Result<()> {
        while !self.stop.is_cancelled() {
            let (one, step) = (random.below(ACCOUNTS), 1 + random.below(ACCOUNTS - 1));
            let two = (one + step) % ACCOUNTS;
            // Errors are on the record.
            let _ = self.set([account(one), account(two)], random.millis(1, 10)).await;
            sleep(random.millis(2, 25)).await;
        }
        Ok(())
    }

    async fn set(&self, names: [String; 2], pause: Duration) -> Result<()> {
        let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(5));
        let locks = names
            .clone()
            .map(|name| LockConfig::new(name).with_ttl(self.ttl).with_acquisition(patient));
        let set = lock_all(&self.backend, locks).await?;
        let mut values = Vec::new();
        for name in &names {
            let fence = set.fence(name.as_str()).context("a fence")?;
            values.push((name, fence, self.registers.claim(name, fence).await?));
        }
        sleep(pause).await;
        for (name, fence, value) in values {
            if let Some(value) = value {
                self.registers.write(name, fence, value + 1).await?;
            }
        }
        let _ = set.release().await?;
        Ok(())
    }
}
