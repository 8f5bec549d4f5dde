//! Readers and writers.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_history::Using;
use syncguard_recipes::{ReadGuard, WriteGuard};
use tokio::time::sleep;

use super::{Backend, TTL, Worker};

/// The keys. Under the second, processes begin to read by a downgrade alone, so none announces its number of slots.
pub(super) const KEYS: [&str; 2] = ["readers-and-writers", "rebuilt"];

impl Worker {
    pub(super) async fn uses(&mut self) -> Result<(), LockError> {
        let is_rebuilt = self.random.percent(60);
        let (key, lock) =
            (KEYS[usize::from(is_rebuilt)], self.shared[usize::from(is_rebuilt)].clone());
        if !is_rebuilt && self.random.percent(70) {
            return self.reads(key, lock.read().await?).await;
        }
        let write = lock.write().await?;
        self.writes(key, &write).await;
        match self.random.below(3) {
            0 => self.reads(key, write.downgrade()).await,
            1 => write.release().await.map(drop),
            _ => Ok(()),
        }
    }

    async fn reads(
        &mut self,
        key: &'static str,
        read: ReadGuard<Backend>,
    ) -> Result<(), LockError> {
        let (using, lasts) = (self.using(key, false, read.fence().get()), self.lasts());
        tokio::select! {
            biased;
            _ = read.lost() => {}
            () = relies(&using, lasts, || read.valid_for()) => {}
        }
        drop(using);
        if self.random.percent(50) { read.release().await.map(drop) } else { Ok(()) }
    }

    async fn writes(&mut self, key: &'static str, write: &WriteGuard<Backend>) {
        let (using, lasts) = (self.using(key, true, write.fence().get()), self.lasts());
        tokio::select! {
            biased;
            _ = write.lost() => {}
            () = relies(&using, lasts, || write.valid_for()) => {}
        }
    }

    /// Most work is short. Some takes longer than the TTL.
    fn lasts(&mut self) -> Duration {
        if self.random.percent(5) { TTL * 3 / 2 } else { self.random.millis(1, 40) }
    }

    fn using(&mut self, key: &'static str, writes: bool, fence: u64) -> Using {
        Using::new(&self.recorder, key, self.random.number(), writes, fence)
    }
}

/// Records from time to time for how long it relies on the lock.
async fn relies(using: &Using, lasts: Duration, valid_for: impl Fn() -> Duration) {
    let mut left = lasts;
    while !left.is_zero() {
        using.relies(&valid_for);
        let pause = left.min(TTL / 4);
        sleep(pause).await;
        left -= pause;
    }
}
