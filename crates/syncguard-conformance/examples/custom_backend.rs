//! A decorator that counts contention over any backend, checked by the suite.
#![allow(clippy::print_stdout, reason = "an example")]
use std::sync::{Arc, atomic::AtomicU64, atomic::Ordering};

use syncguard_conformance::{Harness, Suite};
use syncguard_core::contract::{AcquireRequest, AcquireResult};
use syncguard_core::{Fence, Key, LockBackend, LockError, forward};
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

    forward!(inner: release, extend, is_locked, lookup);
    forward!(inner: watch, health, inventory, capabilities, client_state);
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
