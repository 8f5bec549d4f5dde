//! Good and bad ways to lock.

use std::time::Duration;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
    TIME_TOLERANCE,
};
use syncguard_core::{
    AcquisitionOptions, AutoExtend, LockBackend as _, LockConfig, LockError, LockGuard, acquire,
    lock,
};

use tokio::time::sleep;

use super::{LONGEST, TTL, Worker, increment};
use crate::registers::Registers;

impl Worker {
    /// The usual way: a lock around the work.
    pub(super) async fn brief(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let pause = self.random.millis(0, 3);
        let patient = AcquisitionOptions::new()
            .with_max_retries(8)
            .with_retry_delay(Duration::from_millis(20))
            .with_timeout(Duration::from_secs(1));
        let config = LockConfig::new(key).with_ttl(TTL).with_acquisition(patient);
        let (link, recorder) = (&self.link, &self.recorder);
        lock(&self.backend, config, async |held| {
            increment(link, recorder, number, held.fence(), pause).await;
        })
        .await
    }

    /// Operation by operation, with an extend in between, and a second release at the end.
    pub(super) async fn by_hand(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let request = AcquireRequest::new(key, TTL)?;
        let lock_id = request.lock_id;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        let pause = self.random.millis(0, 3);
        increment(&self.link, &self.recorder, number, lock.fence, pause).await;
        if self.random.percent(50) {
            // Longer or shorter than the remaining time.
            let ttl = TTL * (1 + u32::from(self.random.percent(50))) / 2;
            let _ = self.backend.extend(ExtendRequest::new(lock_id, ttl)?).await?;
        }
        if self.random.percent(20) {
            let _ = self.backend.lookup(LookupRequest::by_lock_id(lock_id)).await?;
        }
        let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        if self.random.percent(20) {
            let _ = self.backend.extend(ExtendRequest::new(lock_id, TTL)?).await?;
        }
        if self.random.percent(20) {
            let _ = self.backend.release(ReleaseRequest::new(lock_id)).await?;
        }
        Ok(())
    }

    /// Longer than the TTL, with auto-extend, and with the next keys as well if they are free: renewals that go together.
    pub(super) async fn long(&mut self, number: usize) -> Result<(), LockError> {
        let lasts = TTL + self.random.millis(0, 600);
        let config = |number| {
            LockConfig::new(Registers::name(number))
                .with_ttl(TTL)
                .with_acquisition(AcquisitionOptions::new().with_max_retries(1))
                .with_auto_extend(AutoExtend::new())
        };
        let first = acquire(&self.backend, config(number)).await?;
        let [second, third] = [1, 2].map(|more| (number + more) % self.keys);
        let (others, more) =
            (acquire(&self.backend, config(second)), acquire(&self.backend, config(third)));
        let (other, more) = tokio::join!(biased; others, more);
        let keep = async |number, guard: LockGuard<_>| {
            tokio::select! {
                biased;
                () = increment(&self.link, &self.recorder, number, guard.fence(), lasts) => {}
                _ = guard.lost() => {}
            }
            guard.release().await.map(drop)
        };
        let keep_more = async |number, guard: Result<LockGuard<_>, LockError>| match guard {
            Ok(guard) => keep(number, guard).await,
            Err(_) => Ok(()),
        };
        let (one, other, more) = tokio::join!(biased; keep(number, first), keep_more(second, other), keep_more(third, more));
        one.and(other).and(more)
    }

    /// About as long as TTL and tolerance or longer, without a look at either. Only the fence protects the data then.
    pub(super) async fn overslept(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let request = AcquireRequest::new(key, TTL)?;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        // Some work to the very end, when others take the lock.
        let late = if self.random.percent(50) { 10 } else { 400 };
        let pause = (TTL + TIME_TOLERANCE).saturating_sub(self.random.millis(0, 30))
            + self.random.millis(0, late);
        increment(&self.link, &self.recorder, number, lock.fence, pause).await;
        let extend = ExtendRequest::new(lock.lock_id, TTL)?;
        if self.backend.extend(extend).await?.is_extended() {
            sleep(self.random.millis(0, 100)).await;
        }
        let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(())
    }

    /// A short extend and then a long one, also if the first had no answer: a late extend could undo the second.
    pub(super) async fn undecided(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let config = LockConfig::new(key)
            .with_ttl(TTL)
            .with_acquisition(AcquisitionOptions::new().with_max_retries(1));
        let mut guard = acquire(&self.backend, config).await?;
        let _ = guard.extend(TTL / 4).await;
        if guard.extend(LONGEST).await?.is_extended() {
            let pause = TTL * 4 + self.random.millis(0, 500);
            tokio::select! {
                biased;
                () = increment(&self.link, &self.recorder, number, guard.fence(), pause) => {}
                _ = guard.lost() => {}
            }
        }
        let _ = guard.release().await?;
        Ok(())
    }

    /// Two extends of the bare backend, the second one longer, and work until its end.
    pub(super) async fn twice(&mut self, number: usize, key: String) -> Result<(), LockError> {
        let request = AcquireRequest::new(key, TTL)?;
        let AcquireResult::Acquired(lock) = self.backend.acquire(request).await? else {
            return Ok(());
        };
        let extend = |ttl| ExtendRequest::new(lock.lock_id, ttl);
        if self.backend.extend(extend(TTL / 4)?).await?.is_extended()
            && self.backend.extend(extend(LONGEST)?).await?.is_extended()
        {
            increment(&self.link, &self.recorder, number, lock.fence, TTL * 4).await;
        }
        let _ = self.backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(())
    }

    /// Only reads.
    pub(super) async fn curious(&mut self, key: String) -> Result<(), LockError> {
        self.backend.is_locked(IsLockedRequest::new(key.as_str())?).await?;
        self.backend.lookup(LookupRequest::by_key(key)?).await?;
        Ok(())
    }
}
