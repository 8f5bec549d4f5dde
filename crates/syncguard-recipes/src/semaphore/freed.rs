//! Hearing that a slot was given back, however that came about.

use std::sync::Arc;

use syncguard_core::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest, ExtendResult,
    Inventory, IsLockedRequest, KeyWatch, LockBackend, LockError, LockInfo, LookupRequest,
    ReleaseRequest, ReleaseResult, WatchRequest,
};

use super::slots::Slots;

/// A backend for the lock of one slot, which tells the semaphore when the store has taken it back: after a
/// release, a drop, and a release that was tried again in the background.
#[derive(Clone)]
pub(super) struct Freed<B> {
    pub(super) backend: B,
    pub(super) slots: Arc<Slots>,
    pub(super) number: u32,
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Freed<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        self.backend.acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let result = self.backend.release(request).await;
        // Also where it was not held any more: somebody else may have it, or nobody.
        if result.is_ok() {
            self.slots.given_back(self.number);
        }
        result
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
        self.backend.client_state()
    }
}
