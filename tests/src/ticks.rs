//! Ticks beside wrong clocks and beside users of the same key that know no ticks.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, SystemTime};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::recipes::{Missed, Schedule, Tick, TickOutcome, Ticks};
use syncguard::{CancellationToken, Fence, LockBackend, LockId, Timestamp};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

const SECOND: Duration = Duration::from_secs(1);
const HOUR_MS: i64 = 3_600_000;

/// A clock that can be set. Clones are the same clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    /// By how many milliseconds it is off.
    off: Arc<AtomicI64>,
}

impl Clock {
    /// The time that it shows.
    #[must_use]
    pub fn now(&self) -> SystemTime {
        let off = self.off.load(Ordering::SeqCst);
        let by = Duration::from_millis(off.unsigned_abs());
        if off < 0 { SystemTime::now() - by } else { SystemTime::now() + by }
    }

    fn set(&self, off: i64) {
        self.off.store(off, Ordering::SeqCst);
    }
}

fn ticks<B: LockBackend<Fence = Fence>>(backend: &B, key: &str) -> Result<Ticks<B>> {
    Ok(Ticks::new(backend.clone(), key, Schedule::every(SECOND)?))
}

/// Two processes with right clocks run the ticks of a schedule, while the clock of a third one is set an hour ahead and an
/// hour back: it runs nothing then, uses up no coming tick, and the others run each tick once.
///
/// # Errors
///
/// If a tick is missing or starts twice, and the errors of the store.
pub async fn outlast_a_stepped_clock<B: LockBackend<Fence = Fence>>(
    right: [B; 2],
    stepped: B,
    clock: &Clock,
) -> Result<()> {
    let (ran, mut runs) = mpsc::unbounded_channel();
    let (stop, stops_stepped) = (CancellationToken::new(), CancellationToken::new());
    let mut processes = JoinSet::new();
    let mut start = |ticks: Ticks<B>, stop: &CancellationToken| {
        let ran = ran.clone();
        processes.spawn(ticks.with_shutdown(stop.clone()).run(async move |tick| {
            let _ = ran.send(second(&tick));
        }));
    };
    for backend in &right {
        // A busy machine may be late, and then they make up for each tick.
        start(ticks(backend, "stepped")?.with_missed(Missed::Each), &stop);
    }
    let by_clock = || {
        let shown = clock.clone();
        anyhow::Ok(ticks(&stepped, "stepped")?.with_clock(Arc::new(move || shown.now())))
    };
    let mut seconds = Vec::new();
    for hours in [0, 1, 0, -1, 0] {
        clock.set(hours * HOUR_MS);
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
async fn refuses<B: LockBackend<Fence = Fence>>(ticks: &Ticks<B>, hours: i64) -> Result<()> {
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

fn second(tick: &Tick) -> u64 {
    tick.scheduled_at().as_millis() / 1000
}

/// Another library, which knows no ticks, takes the key of a schedule as a plain lock between its ticks. Its acquire uses up the
/// next fence, so it may use up an attempt, and starts no tick twice.
///
/// # Errors
///
/// If a tick starts as it must not, and the errors of the store.
pub async fn share_the_key<B: LockBackend<Fence = Fence>>(
    backend: B,
    acquire: impl AsyncFn(&str) -> Result<(u64, LockId)>,
    release: impl AsyncFn(LockId) -> Result<()>,
) -> Result<()> {
    // An hour ago, so that no tick is too early.
    let now = Timestamp::from_system_time(SystemTime::now())?.as_millis() / 1000;
    let first = now - 3600;
    // Tries for the tick of this second; true if it ran.
    let once = async |key: &str, attempts: u16, second: u64, fails: bool| {
        let shown = SystemTime::UNIX_EPOCH + Duration::from_secs(second);
        let ticks = ticks(&backend, key)?
            .with_missed(Missed::Last)
            .with_attempts(attempts)
            .with_clock(Arc::new(move || shown));
        let tried = ticks.try_once(async |tick| {
            if fails {
                tick.give_up();
            }
            tick.fence().get()
        });
        anyhow::Ok(tried.await?)
    };
    // Returns the fence of the other library's lock, which is given back.
    let plain = async |key: &str| {
        let (fence, lock_id) = acquire(key).await?;
        release(lock_id).await?;
        anyhow::Ok(fence)
    };
    let (ran, taken) = (TickOutcome::Ran, TickOutcome::Taken);

    // At most once. A plain lock holds up the next tick, which then runs once.
    ensure!(once("once", 1, first, false).await? == ran(first * 1000));
    let (fence, lock_id) = acquire("once").await?;
    ensure!(fence == first * 1000 + 1, "{fence}");
    let meets = once("once", 1, first + 1, false).await?;
    ensure!(matches!(meets, TickOutcome::Held(_)), "{meets:?}");
    release(lock_id).await?;
    ensure!(once("once", 1, first, false).await? == taken);
    ensure!(once("once", 1, first + 1, false).await? == ran((first + 1) * 1000));
    ensure!(plain("once").await? == (first + 1) * 1000 + 1);
    ensure!(once("once", 1, first + 1, false).await? == taken);

    // With attempts. A plain lock uses up an attempt of the last tick.
    ensure!(once("attempts", 2, first, true).await? == ran(first * 1000));
    ensure!(plain("attempts").await? == first * 1000 + 1);
    ensure!(once("attempts", 2, first, false).await? == taken);
    // If that tick is done, it uses up an attempt of the tick of the next second.
    ensure!(once("attempts", 2, first + 1, false).await? == ran((first + 1) * 1000));
    ensure!(plain("attempts").await? == (first + 2) * 1000);
    ensure!(once("attempts", 2, first + 1, false).await? == taken);
    ensure!(once("attempts", 2, first + 2, false).await? == ran((first + 2) * 1000 + 1));
    ensure!(once("attempts", 2, first + 2, false).await? == taken);

    // A key that only had plain locks counts as new.
    ensure!(plain("new").await? == 1);
    ensure!(once("new", 1, first, false).await? == ran(first * 1000));
    Ok(())
}

#[cfg(test)]
mod tests {
    use syncguard::contract::{AcquireRequest, AcquireResult, BackendCapabilities, FenceWindow};
    use syncguard::memory::MemoryBackend;
    use syncguard::{LockError, forward};

    use super::*;

    /// A store that does not look at its clock.
    #[derive(Clone)]
    struct Hasty(MemoryBackend);

    impl LockBackend for Hasty {
        type Fence = Fence;

        async fn acquire(&self, mut request: AcquireRequest) -> Result<AcquireResult, LockError> {
            if let Some(window) = request.fence_window {
                request.fence_window = Some(FenceWindow::new(window.at_least(), window.below())?);
            }
            self.0.acquire(request).await
        }

        forward!(0: release, extend, is_locked, lookup, watch, inventory, client_state);

        fn capabilities(&self) -> BackendCapabilities {
            self.0.capabilities()
        }
    }

    #[tokio::test]
    async fn a_store_that_lets_ticks_begin_early_is_found() {
        let (store, clock) = (Hasty(MemoryBackend::new()), Clock::default());
        let right = [store.clone(), store.clone()];
        let found = outlast_a_stepped_clock(right, store, &clock).await.unwrap_err();
        assert!(found.to_string().contains("off by 1 h"), "{found}");
    }
}
