//! One process that does one kind of work with the library, and says what the work cost it. `cargo xtask bench cost` runs it
//! as it is here, and built with an earlier state of the library: it names nothing of the benchmarks.
//!
//! `probe URL WORK COUNT CALLERS KEYS SECONDS`. It says `ready`, waits for a line, works, says its figures as JSON, and waits
//! for its end.

use std::alloc::System;
use std::io::Write as _;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rustix::time::{ClockId, clock_gettime};
use serde_json::json;
use stats_alloc::{INSTRUMENTED_SYSTEM, Region, StatsAlloc};
use syncguard::contract::{AcquireRequest, ExtendRequest, ReleaseRequest};
use syncguard::{
    AcquisitionOptions, AutoExtend, DynBackend, Key, LockBackend as _, LockConfig, LockGuard,
    LockId, Locker,
};
use tokio::task::JoinSet;

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const TTL: Duration = Duration::from_secs(60);
/// The TTL of locks that are renewed.
const HELD: Duration = Duration::from_secs(30);
/// Until a process has nothing left to do that comes once.
const SETTLING: Duration = Duration::from_secs(5);
const OFTEN: Duration = Duration::from_millis(1);
/// Longer than any run.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Result<()> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [url, work, numbers @ ..] = &words[..] else {
        bail!("URL WORK COUNT CALLERS KEYS SECONDS")
    };
    let [numbers @ .., seconds] = numbers else { bail!("no numbers") };
    let numbers = numbers.iter().map(|number| number.parse()).collect::<Result<Vec<usize>, _>>()?;
    let [count, callers, keys] = numbers[..] else { bail!("not three numbers: {numbers:?}") };
    let time = Duration::try_from_secs_f64(seconds.parse()?)?;
    let backend = syncguard::connect(url).await?;
    let mut held = Vec::new();
    match work.as_str() {
        "cycle" => cycles(&backend, count, callers, keys, cycle).await?,
        "guard" => cycles(&backend, count, callers, keys, guarded).await?,
        "extend" => held = extend(&backend, count, keys).await?,
        "refused" => held = refused(&backend, count).await?,
        "polled" => held = polled(url, &backend, count).await?,
        "hold" => hold(&backend, count, time).await?,
        "wait" => wait(url, &backend, count, time).await?,
        other => bail!("no such work: {other}"),
    }
    line()?;
    for lock_id in held {
        backend.release(ReleaseRequest::new(lock_id)).await?;
    }
    // Guards end with their server.
    std::process::exit(0);
}

/// The counters of this process at the start of the work.
struct Started {
    allocated: Region<'static, System>,
    at: Instant,
    processor: Duration,
    switches: u64,
}

impl Started {
    /// Says that all is prepared, and waits for the start.
    fn when_told() -> Result<Self> {
        println!("ready");
        line()?;
        let (switches, processor) = (switches()?, processor());
        Ok(Self { allocated: Region::new(ALLOCATOR), at: Instant::now(), processor, switches })
    }

    /// Says the figures.
    fn done(self, lost: usize) -> Result<()> {
        let allocated = self.allocated.change();
        let (seconds, processor) = (self.at.elapsed(), processor() - self.processor);
        let figures = json!({
            "seconds": seconds.as_secs_f64(),
            "processor": processor.as_secs_f64(),
            "allocations": allocated.allocations + allocated.reallocations,
            "bytes": allocated.bytes_allocated,
            "switches": switches()? - self.switches,
            "lost": lost,
        });
        println!("{figures}");
        Ok(std::io::stdout().flush()?)
    }
}

fn line() -> Result<()> {
    tokio::task::block_in_place(|| std::io::stdin().read_line(&mut String::new()))?;
    Ok(())
}

fn processor() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// How often a thread of this process has begun to run.
fn switches() -> Result<u64> {
    let mut sum = 0;
    for thread in std::fs::read_dir("/proc/self/task")? {
        let status = std::fs::read_to_string(thread?.path().join("status"))?;
        for line in status.lines().filter(|line| line.contains("voluntary_ctxt_switches:")) {
            sum += line.rsplit('\t').next().context("a number")?.parse::<u64>()?;
        }
    }
    Ok(sum)
}

fn key(number: usize) -> String {
    format!("cost:{number:012}")
}

async fn take(backend: &DynBackend, key: String, ttl: Duration) -> Result<LockId> {
    let lock = backend.acquire(AcquireRequest::new(key, ttl)?).await?;
    Ok(lock.acquired().context("a free key")?.lock_id)
}

/// As a guard does it: the requests name the key.
async fn cycle(backend: DynBackend, key: String) -> Result<()> {
    let lock_id = take(&backend, key.clone(), TTL).await?;
    let release = ReleaseRequest::new(lock_id).with_key_hint(Key::new(key)?);
    ensure!(backend.release(release).await?.is_released());
    Ok(())
}

async fn guarded(backend: DynBackend, key: String) -> Result<()> {
    let guard = syncguard::acquire(&backend, key).await?;
    ensure!(guard.release().await?.is_released());
    Ok(())
}

/// So many cycles. Each caller has a part of the keys.
async fn cycles<F>(
    backend: &DynBackend,
    count: usize,
    callers: usize,
    keys: usize,
    cycle: fn(DynBackend, String) -> F,
) -> Result<()>
where
    F: Future<Output = Result<()>> + Send + 'static,
{
    let round = async |count: usize| -> Result<()> {
        let mut running = JoinSet::new();
        for caller in 0..callers {
            let backend = backend.clone();
            running.spawn(async move {
                for number in 0..count / callers {
                    cycle(backend.clone(), key((caller + number * callers) % keys)).await?;
                }
                anyhow::Ok(())
            });
        }
        running.join_all().await.into_iter().collect()
    };
    // Connections, statements, and the counter of each key.
    round(keys.max(5 * callers)).await?;
    let started = Started::when_told()?;
    round(count).await?;
    started.done(0)
}

/// Extends held locks by turns, as a guard does it.
async fn extend(backend: &DynBackend, count: usize, keys: usize) -> Result<Vec<LockId>> {
    let mut locks = Vec::new();
    for number in 0..keys {
        locks.push(take(backend, key(number), LONG).await?);
    }
    let round = async |count: usize| -> Result<()> {
        for number in (0..count).map(|number| number % keys) {
            let request = ExtendRequest::new(locks[number], LONG)?;
            let request = request.with_key_hint(Key::new(key(number))?);
            ensure!(backend.extend(request).await?.is_extended());
        }
        Ok(())
    };
    round(keys).await?;
    let started = Started::when_told()?;
    round(count).await?;
    started.done(0)?;
    Ok(locks)
}

/// Asks for a held lock.
async fn refused(backend: &DynBackend, count: usize) -> Result<Vec<LockId>> {
    let held = take(backend, key(0), LONG).await?;
    let round = async |count: usize| -> Result<()> {
        for _ in 0..count {
            let answer = backend.acquire(AcquireRequest::new(key(0), TTL)?).await?;
            ensure!(!answer.is_acquired());
        }
        Ok(())
    };
    round(5).await?;
    let started = Started::when_told()?;
    round(count).await?;
    started.done(0)?;
    Ok(vec![held])
}

/// Waits for a held lock and asks for it so often, on a store that gives no signals.
async fn polled(url: &str, backend: &DynBackend, count: usize) -> Result<Vec<LockId>> {
    let holder = syncguard::connect(url).await?;
    let held = take(&holder, key(0), LONG).await?;
    let often = AcquisitionOptions::new().with_timeout(LONG).with_max_retries(count as u32);
    let often = often.with_retry_delay(OFTEN).with_max_retry_delay(OFTEN);
    let started = Started::when_told()?;
    let waited = syncguard::acquire(backend, LockConfig::new(key(0)).with_acquisition(often)).await;
    ensure!(waited.is_err(), "the lock was free");
    started.done(0)?;
    Ok(vec![held])
}

/// Holds and renews locks for a time.
async fn hold(backend: &DynBackend, count: usize, time: Duration) -> Result<()> {
    // One lock is not renewed within the time, so that the pauses between renewals are measured.
    let ttl = if count == 1 { LONG } else { HELD };
    let locker = Locker::new(backend.clone()).with_ttl(ttl).with_auto_extend(AutoExtend::new());
    let mut running = JoinSet::new();
    for caller in 0..16 {
        let locker = locker.clone();
        running.spawn(async move {
            let mut guards = Vec::new();
            for number in (caller..count).step_by(16) {
                guards.push(locker.acquire(key(number)).await?);
            }
            anyhow::Ok(guards)
        });
    }
    let guards = running.join_all().await.into_iter().collect::<Result<Vec<_>>>()?;
    tokio::time::sleep(SETTLING.min(time)).await;
    let started = Started::when_told()?;
    tokio::time::sleep(time).await;
    let is_lost = |guard: &&LockGuard<DynBackend>| guard.is_lost();
    started.done(guards.iter().flatten().filter(is_lost).count())
}

/// Waits for a time for locks that another client holds.
async fn wait(url: &str, backend: &DynBackend, count: usize, time: Duration) -> Result<()> {
    let holder = syncguard::connect(url).await?;
    for number in 0..count {
        take(&holder, key(number), LONG).await?;
    }
    let mut waiting = JoinSet::new();
    for number in 0..count {
        let backend = backend.clone();
        let config = LockConfig::new(key(number)).with_wait_up_to(LONG);
        waiting.spawn(async move { syncguard::acquire(&backend, config).await.map(drop) });
    }
    // Until each has asked, and watches: at first a waiter asks more often.
    tokio::time::sleep(SETTLING.min(time)).await;
    let started = Started::when_told()?;
    tokio::time::sleep(time).await;
    started.done(waiting.try_join_next().into_iter().count())
}
