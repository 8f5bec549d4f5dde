use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use syncguard::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard::memory::MemoryBackend;
use syncguard::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult, forward, lock,
};

/// A store that the test can take away.
#[derive(Clone, Default)]
struct Flaky {
    store: MemoryBackend,
    down: Arc<AtomicBool>,
}

impl Flaky {
    fn reach(&self) -> Result<&MemoryBackend, LockError> {
        if self.down.load(Ordering::Relaxed) {
            return Err(LockError::new(ErrorCode::ServiceUnavailable, "the store is down"));
        }
        Ok(&self.store)
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Flaky {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        self.reach()?.acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.reach()?.release(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.reach()?.extend(request).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.reach()?.is_locked(request).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.reach()?.lookup(request).await
    }

    forward!(store: watch, inventory, capabilities, client_state);
}

/// The code under test: puts the work off while the store is away.
async fn refresh_cache(locks: &Flaky) -> &'static str {
    match lock(locks, "cache", async |_held| "refreshed").await {
        Ok(done) => done,
        Err(error) if error.is_retryable() => "later",
        Err(_) => "never",
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_tried_again_later() {
    let locks = Flaky::default();
    locks.down.store(true, Ordering::Relaxed);
    assert_eq!(refresh_cache(&locks).await, "later");

    locks.down.store(false, Ordering::Relaxed);
    assert_eq!(refresh_cache(&locks).await, "refreshed");
}
