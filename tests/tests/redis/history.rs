//! Who held what and when, and the rules that must hold whatever went wrong meanwhile.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use syncguard_redis::{
    AcquireRequest, AcquireResult, Fence, LockBackend as _, LockError, RedisBackend, ReleaseRequest,
};

/// The times one key was held, as the holders know it.
#[derive(Clone, Default)]
pub(crate) struct History(Arc<Mutex<Vec<Held>>>);

struct Held {
    from: Instant,
    until: Instant,
    fence: Fence,
}

impl History {
    /// Takes the lock, holds it for a moment, and releases it; says whether it got it.
    pub(crate) async fn cycle(
        &self,
        backend: &RedisBackend,
        key: &str,
        ttl: Duration,
    ) -> Result<bool, LockError> {
        let request = AcquireRequest::new(key, ttl)?;
        let sent = Instant::now();
        let AcquireResult::Acquired(lock) = backend.acquire(request).await? else {
            return Ok(false);
        };
        let from = Instant::now();
        tokio::time::sleep(Duration::from_millis(1)).await;
        let until = Instant::now().min(sent + ttl);
        self.0.lock().unwrap().push(Held { from, until, fence: lock.fence });
        let _ = backend.release(ReleaseRequest::new(lock.lock_id)).await?;
        Ok(true)
    }

    /// How often the key was held until now.
    pub(crate) fn count(&self) -> usize {
        self.0.lock().unwrap().len()
    }

    /// Waits until the key was held so many more times.
    pub(crate) async fn more(&self, turns: usize) {
        let (count, started) = (self.count(), Instant::now());
        while self.count() < count + turns {
            assert!(started.elapsed() < Duration::from_secs(20), "no turns");
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    }

    /// That no two held the key at the same time, and that fences grew.
    pub(crate) fn check(&self) {
        let mut all = self.0.lock().unwrap();
        all.sort_by_key(|held| held.from);
        for pair in all.windows(2) {
            assert!(pair[0].until <= pair[1].from, "two holders at once");
            assert!(pair[0].fence < pair[1].fence, "{:?} then {:?}", pair[0].fence, pair[1].fence);
        }
    }
}
