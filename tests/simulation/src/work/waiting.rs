//! Waiters, some of which go away.

use std::time::Duration;

use syncguard_core::{AcquisitionOptions, LockConfig, LockError, acquire, try_acquire};
use tokio::time::{sleep, timeout};

use super::{TTL, Worker, increment};

/// Longer than the whole simulation.
const HOUR: Duration = Duration::from_hours(1);

impl Worker {
    /// Waits for its turn without a limit, and may go away meanwhile.
    pub(super) async fn patient(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let options = AcquisitionOptions::new().with_timeout(Duration::from_secs(10));
        let config = LockConfig::new(key).with_ttl(TTL).with_acquisition(options);
        let leaves = if self.random.percent(30) { self.random.millis(1, 100) } else { TTL * 20 };
        tokio::select! {
            biased;
            guard = acquire(&self.backend, config) => {
                let guard = guard?;
                let pause = self.random.millis(0, 2);
                increment(&self.link, &self.recorder, number, guard.fence(), pause).await;
                // Some callers only drop the guard, which releases in the background.
                if self.random.percent(70) {
                    let _ = guard.release().await?;
                }
            }
            () = sleep(leaves) => {}
        }
        Ok(())
    }

    /// Takes the key if it is free; does not wait for a slow answer.
    pub(super) async fn impatient(&mut self, key: String) -> Result<(), LockError> {
        let waits = self.random.millis(0, 3);
        let config = LockConfig::new(key).with_ttl(TTL);
        tokio::select! {
            biased;
            guard = try_acquire(&self.backend, config) => drop(guard?),
            () = sleep(waits) => {}
        }
        Ok(())
    }
    /// Asks for an hour, and goes away at some time. Its lock must not stay: the simulation ends long before. Not for
    /// members that are killed, because only the hour ends their locks.
    pub(super) async fn forsaken(&mut self) -> Result<(), LockError> {
        let key = format!("forsaken-{}", self.random.below(1 << 20));
        let config = LockConfig::new(key).with_ttl(HOUR);
        let leaves = self.random.millis(0, 400);
        tokio::select! {
            biased;
            guard = try_acquire(&self.backend, config) => {
                let Some(mut guard) = guard?.acquired() else { return Ok(()) };
                if self.random.percent(30) {
                    let waits = self.random.millis(0, 20);
                    let _ = timeout(waits, guard.extend(HOUR)).await;
                }
                if self.random.percent(50) {
                    let _ = guard.release().await?;
                }
            }
            () = sleep(leaves) => {}
        }
        Ok(())
    }
}
