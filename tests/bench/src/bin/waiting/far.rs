//! A backend that is further away.

use std::time::Duration;

use syncguard_bench::clock;
use syncguard_core::authoring::signals::LockSeen;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, KeyWatch, ReleaseRequest, WatchRequest,
};
use syncguard_core::{LockBackend, LockError, ReleaseResult, forward};

/// Another backend, with this latency in each direction.
#[derive(Clone)]
pub(crate) struct Far<B> {
    pub(crate) inner: B,
    pub(crate) latency: Duration,
}

impl<B: LockBackend> Far<B> {
    async fn travel<T>(&self, operation: impl Future<Output = T>) -> T {
        travel(self.latency).await;
        let result = operation.await;
        travel(self.latency).await;
        result
    }
}

async fn travel(latency: Duration) {
    clock::exactly(latency).await.expect("a timer");
}

impl<B: LockBackend> LockBackend for Far<B> {
    type Fence = B::Fence;

    async fn acquire(
        &self,
        request: AcquireRequest,
    ) -> Result<AcquireResult<Self::Fence>, LockError> {
        self.travel(self.inner.acquire(request)).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.travel(self.inner.release(request)).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let mut watch = self.travel(self.inner.watch(request)).await?;
        let (signal, far) = KeyWatch::new();
        let polls = watch.is_locked.then_some(watch.is_polled);
        let far = LockSeen::of(polls).add_to(far);
        let latency = self.latency;
        tokio::spawn(async move {
            while !watch.is_over() && !signal.is_unheard() {
                watch.changed().await;
                travel(latency).await;
                signal.signal();
            }
        });
        Some(far)
    }

    forward!(inner: extend, is_locked, lookup, capabilities, client_state);
}
