//! Recorded turns at a key.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use syncguard_history::Recording;
use syncguard_history::{Clock, Invariant, Limits, Recorder, check};
use syncguard_redis::contract::{AcquireRequest, AcquireResult, ReleaseRequest};
use syncguard_redis::{LockBackend as _, LockError, RedisBackend};

/// All requests for one key.
#[derive(Clone)]
pub(crate) struct History {
    recorder: Recorder,
    turns: Arc<AtomicUsize>,
}

impl Default for History {
    fn default() -> Self {
        Self { recorder: Recorder::in_memory(Clock::Machine), turns: Arc::default() }
    }
}

impl History {
    /// Takes the lock, holds it for a moment, and releases it; returns whether it got the lock.
    pub(crate) async fn cycle(
        &self,
        backend: &RedisBackend,
        key: &str,
        ttl: Duration,
    ) -> Result<bool, LockError> {
        let backend = Recording::new(backend.clone(), self.recorder.clone());
        let AcquireResult::Acquired(lock) = backend.acquire(AcquireRequest::new(key, ttl)?).await?
        else {
            return Ok(false);
        };
        tokio::time::sleep(Duration::from_millis(1)).await;
        self.turns.fetch_add(1, Ordering::Relaxed);
        let _ = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(true)
    }

    /// The number of holds so far.
    pub(crate) fn count(&self) -> usize {
        self.turns.load(Ordering::Relaxed)
    }

    /// Waits for this many more holds.
    pub(crate) async fn more(&self, turns: usize) {
        let (count, started) = (self.count(), Instant::now());
        while self.count() < count + turns {
            assert!(started.elapsed() < Duration::from_secs(20), "no turns");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// Checks the invariants, except those that these tests break on purpose: they abandon tasks, and their faults
    /// last longer than any call.
    pub(crate) fn check(&self) {
        let mut broken = check(&self.recorder.history(), &Limits::new());
        broken.retain(|it| !matches!(it.invariant, Invariant::BackInTime | Invariant::NothingLeft));
        assert!(broken.is_empty(), "{}", broken[0]);
    }
}
