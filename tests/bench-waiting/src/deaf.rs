//! A backend that hears no signals.

use syncguard_core::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest, ExtendResult,
    IsLockedRequest, KeyWatch, LockBackend, LockError, LockInfo, LookupRequest, ReleaseRequest,
    ReleaseResult, WatchRequest,
};

/// Another backend, which cannot tell when a key may have become free.
#[derive(Clone)]
pub(crate) struct Deaf<B> {
    inner: B,
    state: ClientState,
}

impl<B: LockBackend> Deaf<B> {
    pub(crate) fn new(inner: B) -> Self {
        let state = inner.client_state().clone();
        Self { inner, state }
    }

    /// For a caller that stands in no line with others of this process.
    pub(crate) fn with_own_lines(&self) -> Self {
        Self { inner: self.inner.clone(), state: self.state.clone().with_own_lines() }
    }
}

impl<B: LockBackend> LockBackend for Deaf<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        self.inner.acquire(request).await
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

    async fn watch(&self, _request: WatchRequest) -> Option<KeyWatch> {
        None
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.inner.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        &self.state
    }
}
