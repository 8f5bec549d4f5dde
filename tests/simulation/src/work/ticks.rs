//! Scheduled ticks, with the bare windows and clocks that are wrong.

use std::time::Duration;

use syncguard_core::authoring::{TriedInWindow, try_acquire_in_window};
use syncguard_core::contract::{FenceWindow, Refusal};
use syncguard_core::{Fence, LockConfig, LockError, LockGuard, Timestamp};
use syncguard_history::Entry;
use tokio::time::sleep;

use super::{Backend, TTL, Worker};

/// The period of the schedule, in seconds.
const PERIOD: u64 = 1;

/// How far the worker's clock may be ahead.
const AHEAD: u64 = 500;

impl Worker {
    /// Asks for the tick that is due by a wrong clock. If the store says that its time has not come, the worker asks
    /// for the same tick again at its time.
    pub(super) async fn tick(&mut self) -> Result<(), LockError> {
        let attempts = if self.random.percent(50) { 1 } else { 3 };
        let key = format!("tick-{attempts}");
        let wall = self.twin.wall() + self.random.below(AHEAD);
        let tick = wall / 1000 / PERIOD * PERIOD;
        let window = FenceWindow::new(fence(tick, 1)?, fence(tick, attempts)?)?
            .with_not_before(Timestamp::from_millis(tick * 1000)?);
        loop {
            let config = LockConfig::new(key.as_str()).with_ttl(TTL);
            match try_acquire_in_window(&self.backend, config, window).await? {
                TriedInWindow::Acquired(guard) => {
                    return self.runs(guard, &key, tick, attempts).await;
                }
                TriedInWindow::Refused(Refusal::TooEarly { wait }) => sleep(wait).await,
                TriedInWindow::Held(_) if self.random.percent(50) && !self.stop.is_cancelled() => {
                    sleep(self.random.millis(10, 300)).await;
                }
                TriedInWindow::Held(_) | TriedInWindow::Refused(Refusal::Taken { .. }) => {
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
}

/// The fence of an attempt.
fn fence(tick: u64, attempt: u64) -> Result<Fence, LockError> {
    Fence::new(tick * 1000 + attempt - 1)
}
