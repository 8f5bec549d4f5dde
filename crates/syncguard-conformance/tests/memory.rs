//! The embedded backend keeps the whole contract, in every wrapping and on both clocks.

use syncguard_conformance::{Decorated, Erased, Harness, Shared, Suite, conformance_tests};
use syncguard_memory::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest, ExtendResult,
    Fence, Inventory, IsLockedRequest, Key, KeyWatch, LockBackend, LockError, LockInfo,
    LookupRequest, MemoryBackend, ReleaseRequest, ReleaseResult, WatchRequest,
};

conformance_tests!(bare, Memory::<true>::default());
conformance_tests!(shared, Shared(Memory::<true>::default()));
conformance_tests!(erased, Erased(Memory::<true>::default()));
conformance_tests!(decorated, Decorated::new(Memory::<true>::default(), PassThrough));

#[tokio::test(flavor = "multi_thread")]
async fn on_the_real_clock() {
    let report = Suite::new().run(Memory::<false>::default()).await;
    assert!(report.is_success(), "{report}");
}

#[derive(Default)]
struct Memory<const PAUSED: bool>(MemoryBackend);

impl<const PAUSED: bool> Harness for Memory<PAUSED> {
    type Backend = MemoryBackend;

    const PAUSED_CLOCK: bool = PAUSED;

    async fn connect(&self) -> MemoryBackend {
        self.0.clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.set_fence_counter(key, last);
    }
}

/// A decorator that adds nothing.
#[derive(Clone)]
struct PassThrough<B>(B);

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for PassThrough<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        self.0.acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.0.release(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.0.extend(request).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.0.is_locked(request).await
    }

    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        self.0.lookup(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.0.watch(request).await
    }

    fn inventory(&self) -> Option<Inventory<B::Fence>> {
        self.0.inventory()
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.0.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        self.0.client_state()
    }
}
