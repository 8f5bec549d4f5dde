//! Waiting, and going away.

use std::time::Duration;

use syncguard_core::{AcquisitionOptions, LockConfig, LockError, acquire, try_acquire};
use tokio::time::{sleep, timeout};

use super::{TTL, Worker, increment};

/// So long that nobody lives to see its end.
const HOUR: Duration = Duration::from_secs(3600);

impl Worker {
    /// Waits for its turn, however long it takes, and may go away meanwhile.
    pub(super) async fn patient(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let options = AcquisitionOptions::new().with_timeout(Duration::from_secs(10));
        let config = LockConfig::new(key).with_ttl(TTL).with_acquisition(options);
        let leaves = if self.random.percent(30) { self.random.millis(1, 100) } else { TTL * 20 };
        tokio::select! {
            biased;
            guard = acquire(&self.backend, config) => {
                let guard = guard?;
                let pause = self.random.millis(0, 2);
                increment(&self.twin, &self.recorder, number, guard.fence(), pause).await;
                // Some forget to release: dropped, it does so in the background.
                if self.random.percent(70) {
                    let _ = guard.release().await?;
                }
            }
            () = sleep(leaves) => {}
        }
        Ok(())
    }

    /// Takes it if it is free; an answer that takes long is not waited for.
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
    /// Asks for an hour, and goes away sooner or later. What comes of that must not stay: the end of the
    /// simulation is long before. Not for members that are killed: only the hour ends what they leave.
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
