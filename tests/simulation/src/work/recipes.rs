//! The recipes.

use std::time::Duration;

use syncguard_core::{AcquisitionOptions, LockConfig, LockError, try_acquire};
use syncguard_history::Entry;
use syncguard_recipes::{Election, Semaphore, lock_all};
use tokio::time::sleep;

use super::{PERMITS, SEMAPHORE, TTL, Worker};
use crate::flaw::Flaw;

impl Worker {
    pub(super) async fn permit(&mut self) -> Result<(), LockError> {
        let is_wrong = self.member == 0 && self.flaw == Some(Flaw::OnePermitMore);
        let permits = PERMITS + u32::from(is_wrong);
        let options = AcquisitionOptions::new().with_timeout(Duration::from_secs(2));
        let config = LockConfig::new(SEMAPHORE).with_ttl(TTL).with_acquisition(options);
        let semaphore = Semaphore::new(self.backend.clone(), config, permits);
        let permit = semaphore.acquire().await?;
        tokio::select! {
            biased;
            () = sleep(self.random.millis(1, 20)) => {}
            _ = permit.lost() => {}
        }
        if self.random.percent(50) {
            let _ = permit.release().await?;
        }
        Ok(())
    }

    pub(super) async fn several(&mut self) -> Result<(), LockError> {
        let mut keys = std::collections::BTreeSet::new();
        for _ in 0..3 {
            keys.insert(format!("set-{}", self.random.below(5)));
        }
        let options = AcquisitionOptions::new().with_timeout(Duration::from_secs(1));
        let configs = keys.iter();
        let configs = configs
            .map(|key| LockConfig::new(key.as_str()).with_ttl(TTL).with_acquisition(options));
        let set = lock_all(&self.backend, configs).await?;
        sleep(self.random.millis(0, 5)).await;
        if self.random.percent(50) {
            set.release().await?;
        }
        Ok(())
    }

    /// Takes part in an election for a while, and leads if it wins.
    pub(super) async fn lead(&mut self) -> Result<(), LockError> {
        let shutdown = self.stop.child_token();
        let election = Election::new(self.backend.clone(), LockConfig::new("leader").with_ttl(TTL))
            .with_grace(Duration::from_millis(20))
            .with_shutdown(shutdown.clone());
        let recorder = self.recorder.clone();
        let (lasts, resigns) = (self.random.millis(100, 2000), self.random.millis(50, 1000));
        let run = election.run(async |term| {
            tokio::select! {
                biased;
                _ = term.lost() => {}
                () = sleep(resigns) => {}
            }
            let left = u64::try_from(term.valid_for().as_micros()).unwrap_or(u64::MAX);
            recorder.note(Entry::Told { left });
            term.resign();
        });
        let ends = async {
            sleep(lasts).await;
            shutdown.cancel();
        };
        let (result, ()) = tokio::join!(biased; run, ends);
        result
    }

    /// A job that keeps its lock for a minimum time.
    pub(super) async fn once_a_period(&mut self) -> Result<(), LockError> {
        let job = LockConfig::new("job").with_ttl(TTL).with_min_hold(Duration::from_millis(100));
        if let Some(guard) = try_acquire(&self.backend, job).await?.acquired() {
            sleep(Duration::from_millis(10)).await;
            let _ = guard.release().await?;
        }
        Ok(())
    }
}
