//! Scheduled ticks, with clocks that are wrong.

use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use syncguard_core::authoring::recipes::{
    FenceWindow, Refusal, TriedInWindow, try_acquire_in_window,
};
use syncguard_core::{Fence, LockConfig, LockError, LockGuard, Timestamp};
use syncguard_history::Entry;
use syncguard_recipes::{Missed, Schedule, Ticks};
use tokio::time::sleep;

use super::{Backend, TTL, Worker};

/// The period of the schedules, in seconds.
const PERIOD: u64 = 1;

/// How far the worker's clock may be ahead, in milliseconds.
const AHEAD: u64 = 500;

impl Worker {
    /// Takes part in a schedule for a while.
    pub(super) async fn scheduled(&mut self) -> Result<(), LockError> {
        let shutdown = self.stop.child_token();
        let attempts = self.attempts();
        let key = format!("ticks-{attempts}");
        let missed = match self.random.below(3) {
            0 => Missed::Skip,
            1 => Missed::Last,
            _ => Missed::Each,
        };
        let (link, ahead) = (Arc::clone(&self.link), self.random.below(AHEAD));
        let clock = move || UNIX_EPOCH + Duration::from_millis(link.schedule() + ahead);
        let clock: Arc<dyn Fn() -> SystemTime + Send + Sync> = Arc::new(clock);
        let schedule = Schedule::every(Duration::from_secs(PERIOD))?;
        let ticks =
            Ticks::new(self.backend.clone(), LockConfig::new(key.as_str()).with_ttl(TTL), schedule)
                .with_attempts(attempts)
                .with_missed(missed)
                .with_max_lateness(Duration::from_secs(5))
                .with_clock(clock)
                .with_shutdown(shutdown.clone());
        let recorder = self.recorder.clone();
        let (takes, fails) = (self.random.millis(0, 200), self.random.percent(20));
        let run = ticks.run(async |tick| {
            recorder.note(Entry::Tick {
                key: key.clone(),
                tick: tick.scheduled_at.as_millis() / 1000,
                attempt: u64::from(tick.attempt),
                attempts: u64::from(attempts),
            });
            tokio::select! {
                biased;
                () = sleep(takes) => {}
                _ = tick.lost() => {}
            }
            if fails {
                tick.give_up();
            }
        });
        let lasts = self.random.millis(500, 4000);
        let ends = async {
            sleep(lasts).await;
            shutdown.cancel();
        };
        let (result, ()) = tokio::join!(biased; run, ends);
        result
    }

    /// Asks for the tick that is due by a wrong clock, without the recipe. If the store says that its time has not come,
    /// the worker asks for the same tick again at its time.
    pub(super) async fn tick(&mut self) -> Result<(), LockError> {
        let attempts = u64::from(self.attempts());
        let key = format!("tick-{attempts}");
        let is_wild = self.random.percent(10);
        let wall = if is_wild { self.link.wall() } else { self.link.schedule() };
        let wall = wall + self.random.below(AHEAD);
        let tick = wall / 1000 / PERIOD * PERIOD;
        let window = FenceWindow::new(fence(tick, 1)?, fence(tick, attempts)?)?
            .with_not_before(Timestamp::from_millis(tick * 1000)?);
        loop {
            let config = LockConfig::new(key.as_str()).with_ttl(TTL);
            match try_acquire_in_window(&self.backend, config, window).await? {
                TriedInWindow::Acquired(guard) => {
                    return self.runs(guard, &key, tick, attempts).await;
                }
                TriedInWindow::Refused(Refusal::TooEarly { .. }) if is_wild => return Ok(()),
                TriedInWindow::Refused(Refusal::TooEarly { wait }) => sleep(wait).await,
                TriedInWindow::Busy(_) if self.random.percent(50) && !self.stop.is_cancelled() => {
                    sleep(self.random.millis(10, 300)).await;
                }
                TriedInWindow::Busy(_) | TriedInWindow::Refused(Refusal::Taken { .. }) => {
                    return Ok(());
                }
            }
        }
    }

    async fn runs(
        &mut self,
        guard: LockGuard<Backend>,
        key: &str,
        tick: u64,
        attempts: u64,
    ) -> Result<(), LockError> {
        if guard.valid_for() == Duration::ZERO {
            return Ok(());
        }
        let attempt = (guard.fence().get() + 1).saturating_sub(fence(tick, 1)?.get());
        self.recorder.note(Entry::Tick { key: key.to_owned(), tick, attempt, attempts });
        tokio::select! {
            biased;
            () = sleep(self.random.millis(0, 100)) => {}
            _ = guard.lost() => {}
        }
        if self.random.percent(50) {
            let _ = guard.release().await?;
        }
        Ok(())
    }

    fn attempts(&mut self) -> u16 {
        if self.random.percent(50) { 1 } else { 3 }
    }
}

/// The fence of an attempt.
fn fence(tick: u64, attempt: u64) -> Result<Fence, LockError> {
    Fence::new(tick * 1000 + attempt - 1)
}
