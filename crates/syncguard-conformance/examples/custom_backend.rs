//! A backend of your own: here one that counts contention over any other. The suite proves it.
#![allow(clippy::print_stdout, clippy::wildcard_imports, reason = "an example")]
use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering};

use syncguard_conformance::{Harness, Suite};
use syncguard_core::*;
use syncguard_memory::MemoryBackend;

#[derive(Clone, Default)]
struct Counting<B> {
    inner: B,
    contended: Arc<AtomicU64>,
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Counting<B> {
    type Fence = B::Fence;
    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        let result = self.inner.acquire(request).await?;
        self.contended.fetch_add(u64::from(!result.is_acquired()), Ordering::Relaxed);
        Ok(result)
    }
    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.inner.release(request).await
    }
    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.inner.extend(request).await
    }
    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.inner.is_locked(request).await
    }
    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        self.inner.lookup(request).await
    }
    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.inner.watch(request).await
    }

    fn inventory(&self) -> Option<Inventory<B::Fence>> {
        self.inner.inventory()
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.inner.capabilities()
    }
    fn client_state(&self) -> &ClientState {
        self.inner.client_state()
    }
}

impl Harness for Counting<MemoryBackend> {
    type Backend = Self;
    async fn connect(&self) -> Self {
        self.clone()
    }
    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.inner.set_fence_counter(key, last);
    }
}

#[tokio::main]
async fn main() {
    let backend = Counting::<MemoryBackend>::default();
    println!("{}contended: {:?}", Suite::new().run(backend.clone()).await, backend.contended);
}
