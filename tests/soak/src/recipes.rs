//! The work of processes that use the recipes.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use syncguard::recipes::{Election, Missed, RwLock, Schedule, Semaphore, Ticks, lock_all};
use syncguard::{
    AcquisitionOptions, CancellationToken, DynBackend, LockConfig, TryAcquired, try_acquire,
};
use syncguard_history::{Entry, Random, Recorder, Recording, Using};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::registers::Registers;
use crate::stalls::Stalls;

pub(crate) const LEADER: &str = "leader";
pub(crate) const DOWNLOADS: &str = "downloads";
pub(crate) const NIGHTLY: &str = "nightly";
pub(crate) const ACCOUNT: &str = "account-";
pub(crate) const INDEX: &str = "index";
/// As the index, but its processes begin to read by a downgrade alone, so none announces its number of slots.
pub(crate) const REBUILT: &str = "rebuilt";

/// The minimum hold of the nightly job.
pub(crate) const MIN_HOLD: Duration = Duration::from_millis(1_300);
/// Its period: one below the minimum hold would never have a second run.
const PERIOD: Duration = Duration::from_secs(2);

/// How many registers the sets of locks share.
pub(crate) const ACCOUNTS: u64 = 5;

/// How many schedules have ticks. Those of the first half run each tick at most once, the others until it is done.
const SCHEDULES: u64 = 6;
const EACH: Duration = Duration::from_secs(1);
/// The attempts of the ticks that have several.
const ATTEMPTS: u16 = 50;
/// Milliseconds by which the clock of a process with ticks may be off.
const OFF: [i64; 6] = [-3_000, -700, 0, 400, 2_000, 5_000];

/// The name of a register that a set of locks protects, and of its lock.
pub(crate) fn account(number: u64) -> String {
    format!("{ACCOUNT}{number}")
}

/// Runs all recipes in one process. Errors of requests are on the record.
pub(crate) struct Recipes {
    pub(crate) backend: Recording<DynBackend>,
    /// The registers that the sets of locks protect.
    pub(crate) registers: Registers,
    pub(crate) recorder: Recorder,
    pub(crate) ttl: Duration,
    pub(crate) stop: CancellationToken,
}

impl Recipes {
    /// Uses the recipes until it is stopped. An error is one that no waiting mends.
    pub(crate) async fn run(self, random: &mut Random) -> Result<()> {
        let resigning = Random::new(random.number());
        let moving = Random::new(random.number());
        // As during a roll-out: some processes use a smaller number.
        let permits = *random.choose(&[3, 3, 2]);
        let (slots, slots_of_rebuilt) = (*random.choose(&[2, 3]), *random.choose(&[1, 2, 4]));
        let off = *random.choose(&OFF);
        let [sharing, rebuilding] = [4, 2]
            .map(|tasks| (0..tasks).map(|_| Random::new(random.number())).collect::<Vec<_>>());
        let (election, semaphore, nightly, sets, index, rebuilt, ticks) = tokio::join!(
            self.election(resigning),
            self.semaphore(permits),
            self.nightly(random.below(300)),
            self.sets(moving),
            self.uses(INDEX, slots, sharing),
            self.uses(REBUILT, slots_of_rebuilt, rebuilding),
            self.ticks(off),
        );
        election.and(semaphore).and(nightly).and(sets).and(index).and(rebuilt).and(ticks)
    }

    /// Leads again and again, and resigns after some time.
    ///
    /// Records the time that was left when the work was told to stop, unless the process did not run for half of the
    /// notice: no library can tell such a process in time.
    async fn election(&self, mut random: Random) -> Result<()> {
        let election =
            Election::new(self.backend.clone(), LockConfig::new(LEADER).with_ttl(self.ttl))
                .with_shutdown(self.stop.clone())
                .with_grace(Duration::from_millis(50));
        let (handle, stop) = (election.handle(), self.stop.clone());
        tokio::spawn(async move {
            while !stop.is_cancelled() {
                sleep(random.millis(300, 1500)).await;
                handle.resign();
            }
        });
        let notice = self.ttl / 5;
        let run = election.run(async |term| {
            let stalls = Stalls::watch();
            term.lost().await;
            let left = u64::try_from(term.valid_for().as_micros()).unwrap_or(u64::MAX);
            if left > 0 || stalls.longest() < notice / 2 {
                self.recorder.note(Entry::Told { left });
            }
        });
        run.await.context("the election")
    }

    /// Four tasks take permits and give them back, by release and by drop.
    async fn semaphore(&self, permits: u32) -> Result<()> {
        let key = DOWNLOADS.to_owned();
        self.recorder.note(Entry::Semaphore { key, permits: u64::from(permits) });
        let patient = AcquisitionOptions::new().with_timeout(Duration::from_secs(20));
        let semaphore = Semaphore::new(
            self.backend.clone(),
            LockConfig::new(DOWNLOADS).with_ttl(self.ttl).with_acquisition(patient),
            permits,
        );
        let mut tasks = JoinSet::new();
        for task in 0..4_u64 {
            let (semaphore, stop) = (semaphore.clone(), self.stop.clone());
            tasks.spawn(async move {
                let mut round = task;
                while !stop.is_cancelled() {
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

    /// Tries for its turn in each period, with a clock that is `skew` milliseconds late, and keeps the lock for a
    /// minimum time.
    async fn nightly(&self, skew: u64) -> Result<()> {
        let period = u64::try_from(PERIOD.as_millis())?;
        while !self.stop.is_cancelled() {
            let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
            let next = (now.saturating_sub(skew) / period + 1) * period + skew;
            tokio::select! {
                () = sleep(Duration::from_millis(next - now)) => {}
                () = self.stop.cancelled() => break,
            }
            let job = LockConfig::new(NIGHTLY).with_ttl(self.ttl).with_min_hold(MIN_HOLD);
            // As in any cron, the next period is another chance.
            if let Ok(TryAcquired::Acquired(guard)) = try_acquire(&self.backend, job).await {
                sleep(Duration::from_millis(10)).await;
                let _ = guard.release().await;
            }
        }
        Ok(())
    }

    /// Moves an amount between two accounts, under both their locks, again and again.
    async fn sets(&self, mut random: Random) -> Result<()> {
        while !self.stop.is_cancelled() {
            let (one, step) = (random.below(ACCOUNTS), 1 + random.below(ACCOUNTS - 1));
            let two = (one + step) % ACCOUNTS;
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

    /// A task for each of these reads and writes. Some processes use a smaller number of slots than others.
    async fn uses(&self, key: &'static str, slots: u32, randoms: Vec<Random>) -> Result<()> {
        let lock = RwLock::new(
            self.backend.clone(),
            LockConfig::new(key).with_ttl(self.ttl).with_wait_up_to(Duration::from_secs(20)),
            slots,
        );
        let mut tasks = JoinSet::new();
        for mut random in randoms {
            let (lock, recorder, stop) = (lock.clone(), self.recorder.clone(), self.stop.clone());
            tasks.spawn(async move {
                while !stop.is_cancelled() {
                    tokio::select! {
                        () = use_once(key, &lock, &recorder, &mut random) => {}
                        () = stop.cancelled() => return,
                    }
                    sleep(random.millis(2, 25)).await;
                }
            });
        }
        tasks.join_all().await;
        // What was dropped is given back in the background.
        sleep(Duration::from_millis(300)).await;
        Ok(())
    }

    /// Runs the ticks of many schedules, by a clock that is off by this many milliseconds.
    async fn ticks(&self, off: i64) -> Result<()> {
        let clock = Arc::new(move || {
            let by = Duration::from_millis(off.unsigned_abs());
            if off < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
        });
        let mut tasks = JoinSet::new();
        for number in 0..SCHEDULES {
            let key = format!("tick-{number}");
            let (attempts, missed) =
                if number < SCHEDULES / 2 { (1, Missed::Skip) } else { (ATTEMPTS, Missed::Each) };
            let config = LockConfig::new(key.as_str()).with_ttl(self.ttl);
            let ticks = Ticks::new(self.backend.clone(), config, Schedule::every(EACH)?)
                .with_attempts(attempts)
                .with_missed(missed)
                .with_shutdown(self.stop.clone())
                .with_clock(clock.clone());
            let recorder = self.recorder.clone();
            tasks.spawn(ticks.run(async move |tick| {
                recorder.note(Entry::Tick {
                    key: key.clone(),
                    tick: tick.scheduled_at.as_millis() / 1000,
                    attempt: tick.attempt.into(),
                    attempts: attempts.into(),
                });
                // Long enough that a kill meets some of them.
                sleep(if attempts > 1 { EACH / 4 } else { EACH / 50 }).await;
            }));
        }
        for ended in tasks.join_all().await {
            ended.context("a schedule")?;
        }
        Ok(())
    }
}

/// One read, or one write of which some go on as a read.
async fn use_once(
    key: &'static str,
    lock: &RwLock<Recording<DynBackend>>,
    recorder: &Recorder,
    random: &mut Random,
) {
    let work = random.millis(1, 15);
    let mut read = None;
    if key == REBUILT || random.percent(30) {
        let Ok(write) = lock.write().await else { return };
        let using = Using::new(recorder, key, random.number(), true, write.fence().get());
        using.relies(|| write.valid_for());
        tokio::select! {
            _ = write.lost() => {}
            () = sleep(work) => {}
        }
        drop(using);
        if random.percent(70) {
            let _ = write.release().await;
            return;
        }
        read = Some(write.downgrade());
    }
    let read = match read {
        Some(read) => read,
        None => match lock.read().await {
            Ok(read) => read,
            Err(_) => return,
        },
    };
    let using = Using::new(recorder, key, random.number(), false, read.fence().get());
    using.relies(|| read.valid_for());
    tokio::select! {
        _ = read.lost() => {}
        () = sleep(work) => {}
    }
    drop(using);
}
