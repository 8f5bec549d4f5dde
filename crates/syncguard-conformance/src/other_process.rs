//! A backend as another process has it.

use syncguard_core::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest, ExtendResult,
    Inventory, IsLockedRequest, KeyWatch, LockBackend, LockError, LockInfo, LookupRequest,
    ReleaseRequest, ReleaseResult, WatchRequest,
};

/// A backend whose callers stand in lines of their own, so that they meet those of other handles in the
/// store alone.
#[derive(Clone)]
pub(crate) struct OtherProcess<B> {
    backend: B,
    state: ClientState,
}

impl<B: LockBackend> OtherProcess<B> {
    pub(crate) fn new(backend: B) -> Self {
        let state = backend.client_state().clone().with_own_lines();
        Self { backend, state }
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for OtherProcess<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        self.backend.acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.backend.release(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.backend.extend(request).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.backend.is_locked(request).await
    }

    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        self.backend.lookup(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.backend.watch(request).await
    }

    fn inventory(&self) -> Option<Inventory<B::Fence>> {
        self.backend.inventory()
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.backend.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        &self.state
    }
}
