//! The memory backend behind a connection that takes time, fails on request, and counts its commands.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_core::authoring::{LockInventory, cancel};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, KeySignal, KeyWatch,
    LookupRequest, ReleaseRequest, WatchRequest,
};
use syncguard_core::inventory::{FenceCounter, Inventory, ListRequest, Page};
use syncguard_core::shared::ClientState;
use syncguard_core::{
    ErrorCode, ExtendResult, Fence, Key, LockBackend, LockError, LockInfo, ReleaseResult,
};
use syncguard_memory::MemoryBackend;
use tokio::time::sleep;

/// A process's connection to the store. Clones share it; [`Connection::of`] makes another process.
#[derive(Clone)]
pub(crate) struct Connection {
    pub(crate) store: MemoryBackend,
    pub(crate) counts: Arc<Counts>,
    state: ClientState,
    /// One round trip.
    pub(crate) takes: Duration,
}

#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) acquires: AtomicU32,
    pub(crate) releases: AtomicU32,
    pub(crate) watches: AtomicU32,
    /// No command gets through.
    pub(crate) is_cut: AtomicBool,
    pub(crate) without_signals: AtomicBool,
    /// Watches get no signal.
    pub(crate) is_deaf: AtomicBool,
    /// The senders of watches that get no signal.
    pub(crate) unsent: Mutex<Vec<KeySignal>>,
}

impl Counts {
    /// All commands without the renewals.
    pub(crate) fn commands(&self) -> u32 {
        [&self.acquires, &self.releases, &self.watches]
            .map(|it| it.load(Ordering::Relaxed))
            .iter()
            .sum()
    }
}

impl Connection {
    pub(crate) fn new() -> Self {
        Self::of(&MemoryBackend::new())
    }

    /// Another process on the same store.
    pub(crate) fn of(store: &MemoryBackend) -> Self {
        let (store, takes) = (store.clone(), Duration::from_millis(2));
        Self { store, counts: Arc::default(), state: ClientState::default(), takes }
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.counts.is_cut.store(is_cut, Ordering::Relaxed);
    }

    async fn travel<T>(
        &self,
        count: &AtomicU32,
        asked: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        count.fetch_add(1, Ordering::Relaxed);
        sleep(self.takes / 2).await;
        self.check()?;
        let answer = asked.await;
        sleep(self.takes / 2).await;
        answer
    }

    fn check(&self) -> Result<(), LockError> {
        if self.counts.is_cut.load(Ordering::Relaxed) {
            return Err(LockError::new(ErrorCode::ServiceUnavailable, "told to fail"));
        }
        Ok(())
    }
}

impl LockBackend for Connection {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let this = self.clone();
        cancel::finish_acquire(self, request, async move |request, _| {
            this.travel(&this.counts.acquires, this.store.acquire(request.repeat())).await
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let this = self.clone();
        let token = request.cancellation.clone();
        cancel::finish(token.as_ref(), async move {
            let release = this.store.release(request);
            this.travel(&this.counts.releases, release).await
        })
        .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.travel(&AtomicU32::new(0), self.store.extend(request)).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.store.is_locked(request).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.store.lookup(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        if self.counts.without_signals.load(Ordering::Relaxed) {
            return None;
        }
        self.counts.watches.fetch_add(1, Ordering::Relaxed);
        sleep(self.takes).await;
        if self.counts.is_deaf.load(Ordering::Relaxed) {
            let (signal, watch) = KeyWatch::new();
            self.counts.unsent.lock().unwrap().push(signal);
            return Some(watch.with_locked());
        }
        self.store.watch(request).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    syncguard_core::forward!(store: capabilities);

    fn client_state(&self) -> &ClientState {
        &self.state
    }
}

/// Takes no time.
impl LockInventory for Connection {
    async fn list_locks(&self, request: ListRequest) -> Result<Page<LockInfo>, LockError> {
        self.check()?;
        LockInventory::list_locks(&self.store, request).await
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        self.check()?;
        LockInventory::list_counters(&self.store, request).await
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        self.check()?;
        LockInventory::fence_counter(&self.store, key).await
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        self.check()?;
        LockInventory::raise_counter(&self.store, key, at_least).await
    }
}

pub(crate) async fn is_locked(backend: &impl LockBackend, key: &str) -> bool {
    backend.is_locked(IsLockedRequest::new(key).unwrap()).await.unwrap()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
