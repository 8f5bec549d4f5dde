//! Readers and writers.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_history::Entry;
use syncguard_recipes::{ReadGuard, WriteGuard};
use tokio::time::sleep;

use super::{Backend, TTL, Worker};

pub(super) const KEY: &str = "readers-and-writers";

impl Worker {
    pub(super) async fn uses(&mut self) -> Result<(), LockError> {
        if self.random.percent(70) {
            let read = self.shared.read().await?;
            return self.reads(read).await;
        }
        let write = self.shared.write().await?;
        self.writes(&write).await;
        match self.random.below(3) {
            0 => self.reads(write.downgrade()).await,
            1 => write.release().await.map(drop),
            _ => Ok(()),
        }
    }

    async fn reads(&mut self, read: ReadGuard<Backend>) -> Result<(), LockError> {
        let (entry, lasts) = (self.entry(false, read.fence().get()), self.lasts());
        tokio::select! {
            biased;
            _ = read.lost() => {}
            () = self.relies(&entry, lasts, || read.valid_for()) => {}
        }
        self.recorder.note(entry(Duration::ZERO));
        if self.random.percent(50) { read.release().await.map(drop) } else { Ok(()) }
    }

    async fn writes(&mut self, write: &WriteGuard<Backend>) {
        let (entry, lasts) = (self.entry(true, write.fence().get()), self.lasts());
        tokio::select! {
            biased;
            _ = write.lost() => {}
            () = self.relies(&entry, lasts, || write.valid_for()) => {}
        }
        self.recorder.note(entry(Duration::ZERO));
    }

    /// Notes from time to time how long it relies on the lock.
    async fn relies(
        &self,
        entry: impl Fn(Duration) -> Entry,
        lasts: Duration,
        valid_for: impl Fn() -> Duration,
    ) {
        let mut left = lasts;
        while !left.is_zero() {
            self.recorder.note(entry(valid_for()));
            let pause = left.min(TTL / 4);
            sleep(pause).await;
            left -= pause;
        }
    }

    /// Most work is short. Some takes longer than the TTL.
    fn lasts(&mut self) -> Duration {
        if self.random.percent(5) { TTL * 3 / 2 } else { self.random.millis(1, 20) }
    }

    /// The notes of one use, with the time for which it relies on the lock.
    fn entry(&mut self, writes: bool, fence: u64) -> impl Fn(Duration) -> Entry + use<> {
        let number = self.random.number();
        move |left| {
            let left = u64::try_from(left.as_micros()).unwrap_or(u64::MAX);
            Entry::Uses { key: KEY.to_owned(), number, writes, fence, left }
        }
    }
}
