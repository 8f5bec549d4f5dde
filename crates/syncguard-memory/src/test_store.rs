//! A store that fails when a test says so.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use syncguard_core::authoring::{LockInventory, basic_health, cancel};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, KeyWatch, LookupRequest,
    ReleaseRequest, SignalStatus, WatchRequest,
};
use syncguard_core::diagnostics::Health;
use syncguard_core::inventory::{FenceCounter, Inventory, ListRequest, Page};
use syncguard_core::{
    ErrorCode, ExtendResult, Fence, IntoKey, Key, LockBackend, LockError, LockInfo, ReleaseResult,
    forward,
};

use crate::backend::MemoryBackend;

/// A memory backend for tests of your own code: it is down, slow, or refuses writes, and loses a lock, whenever the test
/// says so.
///
/// Clones share their locks and their faults. Give the code under test one, and keep another one.
///
/// ```
/// use syncguard_memory::{ErrorCode, TestStore, try_acquire};
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), syncguard_memory::LockError> {
/// let store = TestStore::new();
/// let guard = try_acquire(&store, "report").await?.acquired().expect("free");
///
/// store.set_down(true);
/// assert_eq!(try_acquire(&store, "other").await.unwrap_err().code(), ErrorCode::ServiceUnavailable);
///
/// store.set_down(false);
/// assert!(store.lose_lock("report")?);
/// assert!(!guard.release().await?.is_released());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct TestStore {
    store: MemoryBackend,
    faults: Arc<Faults>,
}

#[derive(Default)]
struct Faults {
    is_down: AtomicBool,
    denies_writes: AtomicBool,
    /// In microseconds.
    delay: AtomicU64,
}

impl TestStore {
    /// Makes an empty store without faults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// While the store is down, every operation fails with `ServiceUnavailable` and changes nothing.
    pub fn set_down(&self, is_down: bool) {
        self.faults.is_down.store(is_down, Ordering::Relaxed);
    }

    /// While writes are denied, acquires, extends, releases and raises of counters fail with `AuthFailed` and change nothing.
    pub fn set_writes_denied(&self, are_denied: bool) {
        self.faults.denies_writes.store(are_denied, Ordering::Relaxed);
    }

    /// How long each operation takes, in whole microseconds of tokio's clock. The store carries it out in the middle of
    /// that time. Zero by default.
    pub fn set_delay(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.faults.delay.store(micros, Ordering::Relaxed);
    }

    /// Takes the lock of a key away from its holder, as a forced release does: the holder hears of it by its next
    /// renewal, extend or release. `false` if the key is not locked.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn lose_lock(&self, key: impl IntoKey) -> Result<bool, LockError> {
        let (key, now) = (key.into_key()?, self.store.now()?);
        Ok(self.store.with(|store| store.release_key(&key, now)))
    }

    /// Lets the lock of a key expire now, tolerance included: the next caller gets it, and the holder is too late. `false`
    /// if the key is not locked.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for a bad key.
    pub fn expire_lock(&self, key: impl IntoKey) -> Result<bool, LockError> {
        let (key, now) = (key.into_key()?, self.store.now()?);
        Ok(self.store.with(|store| store.expire(&key, now)))
    }

    /// The store without its faults: to see what it keeps, or to take a lock while the code under test cannot.
    #[must_use]
    pub fn memory(&self) -> &MemoryBackend {
        &self.store
    }

    fn half_of_the_delay(&self) -> Duration {
        Duration::from_micros(self.faults.delay.load(Ordering::Relaxed)) / 2
    }

    /// Carries a request out in the middle of the delay.
    async fn ask<T>(
        &self,
        is_write: bool,
        asked: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        self.arrive(is_write).await?;
        let answer = asked.await;
        pause(self.half_of_the_delay()).await;
        answer
    }

    /// A request is on its way to the store.
    async fn arrive(&self, is_write: bool) -> Result<(), LockError> {
        pause(self.half_of_the_delay()).await;
        if self.faults.is_down.load(Ordering::Relaxed) {
            return Err(LockError::new(ErrorCode::ServiceUnavailable, "the test store is down"));
        }
        if is_write && self.faults.denies_writes.load(Ordering::Relaxed) {
            return Err(LockError::new(ErrorCode::AuthFailed, "the test store denies writes"));
        }
        Ok(())
    }
}

async fn pause(time: Duration) {
    if !time.is_zero() {
        tokio::time::sleep(time).await;
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for TestStore {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let this = self.clone();
        cancel::finish_acquire(self, request, async move |request, _| {
            this.ask(true, this.store.acquire(request.repeat())).await
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let (this, token) = (self.clone(), request.cancellation.clone());
        let released = async move { this.ask(true, this.store.release(request)).await };
        cancel::finish(token.as_ref(), released).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let (this, token) = (self.clone(), request.cancellation.clone());
        let extended = async move { this.ask(true, this.store.extend(request)).await };
        cancel::finish(token.as_ref(), extended).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let token = request.cancellation.clone();
        cancel::read(token.as_ref(), self.ask(false, self.store.is_locked(request))).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let token = request.cancellation.clone();
        cancel::read(token.as_ref(), self.ask(false, self.store.lookup(request))).await
    }

    /// While the store is down, a waiter polls.
    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.arrive(false).await.ok()?;
        self.store.watch(request).await
    }

    async fn health(&self) -> Health {
        basic_health(self, |_| SignalStatus::Working).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    forward!(store: capabilities, client_state);
}

#[deny(clippy::missing_trait_methods)]
impl LockInventory for TestStore {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        self.ask(false, LockInventory::list_locks(&self.store, request)).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        self.ask(false, LockInventory::list_counters(&self.store, request)).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        self.ask(false, LockInventory::fence_counter(&self.store, key)).await
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        let this = self.clone();
        cancel::finish(None, async move {
            this.ask(true, LockInventory::raise_counter(&this.store, key, at_least)).await
        })
        .await
    }
}

impl fmt::Debug for TestStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestStore")
            .field("is_down", &self.faults.is_down)
            .field("denies_writes", &self.faults.denies_writes)
            .field("delay", &(self.half_of_the_delay() * 2))
            .finish()
    }
}
