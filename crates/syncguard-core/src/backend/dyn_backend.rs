//! A backend chosen at run time.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use super::lock_backend::LockBackend;
use crate::client::ClientState;
use crate::contract::capabilities::BackendCapabilities;
use crate::contract::health::Health;
use crate::contract::info::LockInfo;
use crate::contract::key_watch::KeyWatch;
use crate::contract::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest, WatchRequest,
};
use crate::contract::response::{AcquireResult, ExtendResult, ReleaseResult};
use crate::inventory::handle::Inventory;
use crate::value::{Fence, FenceToken, LockError};

/// Any backend behind one type, for programs that choose their store from configuration.
///
/// Each operation costs one allocation more than on the backend itself. `DynBackend` is for a backend with
/// fences; the type for a backend without fences is `DynBackend<NoFence>`.
///
/// ```
/// use syncguard_core::{DynBackend, LockBackend, lock};
///
/// # async fn charge() {}
/// async fn pay(backend: &DynBackend) -> Result<(), syncguard_core::LockError> {
///     lock(backend, "payment:123", async |_held| charge().await).await
/// }
/// ```
#[derive(Clone)]
pub struct DynBackend<F: FenceToken = Fence>(Arc<dyn ErasedBackend<F>>);

impl<F: FenceToken> DynBackend<F> {
    /// Wraps a backend. Never fails.
    pub fn new<B: LockBackend<Fence = F>>(backend: B) -> Self {
        Self(Arc::new(backend))
    }

    /// Waits until every lock that no caller holds any more is given back, but at most for this time. Returns how
    /// many are not: see [`ClientState::drained`](crate::shared::ClientState::drained).
    ///
    /// # Cancel safety
    ///
    /// Safe: only the waiting ends.
    pub async fn drained(&self, timeout: Duration) -> usize {
        self.0.client_state().drained(timeout).await
    }
}

#[deny(clippy::missing_trait_methods)]
impl<F: FenceToken> LockBackend for DynBackend<F> {
    type Fence = F;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<F>, LockError> {
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

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo<F>>, LockError> {
        self.0.lookup(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.0.watch(request).await
    }

    async fn health(&self) -> Health {
        self.0.health().await
    }

    fn inventory(&self) -> Option<Inventory<F>> {
        self.0.inventory()
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.0.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        self.0.client_state()
    }
}

impl<F: FenceToken> fmt::Debug for DynBackend<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DynBackend").field(&LockBackend::capabilities(self).backend).finish()
    }
}

type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
type Answer<'a, T> = Boxed<'a, Result<T, LockError>>;

/// The object-safe form of [`LockBackend`].
trait ErasedBackend<F: FenceToken>: Send + Sync {
    fn acquire(&self, request: AcquireRequest) -> Answer<'_, AcquireResult<F>>;
    fn release(&self, request: ReleaseRequest) -> Answer<'_, ReleaseResult>;
    fn extend(&self, request: ExtendRequest) -> Answer<'_, ExtendResult>;
    fn is_locked(&self, request: IsLockedRequest) -> Answer<'_, bool>;
    fn lookup(&self, request: LookupRequest) -> Answer<'_, Option<LockInfo<F>>>;
    fn watch(&self, request: WatchRequest) -> Boxed<'_, Option<KeyWatch>>;
    fn health(&self) -> Boxed<'_, Health>;
    fn inventory(&self) -> Option<Inventory<F>>;
    fn capabilities(&self) -> BackendCapabilities;
    fn client_state(&self) -> &ClientState;
}

impl<B: LockBackend> ErasedBackend<B::Fence> for B {
    fn acquire(&self, request: AcquireRequest) -> Answer<'_, AcquireResult<B::Fence>> {
        Box::pin(LockBackend::acquire(self, request))
    }

    fn release(&self, request: ReleaseRequest) -> Answer<'_, ReleaseResult> {
        Box::pin(LockBackend::release(self, request))
    }

    fn extend(&self, request: ExtendRequest) -> Answer<'_, ExtendResult> {
        Box::pin(LockBackend::extend(self, request))
    }

    fn is_locked(&self, request: IsLockedRequest) -> Answer<'_, bool> {
        Box::pin(LockBackend::is_locked(self, request))
    }

    fn lookup(&self, request: LookupRequest) -> Answer<'_, Option<LockInfo<B::Fence>>> {
        Box::pin(LockBackend::lookup(self, request))
    }

    fn watch(&self, request: WatchRequest) -> Boxed<'_, Option<KeyWatch>> {
        Box::pin(LockBackend::watch(self, request))
    }

    fn health(&self) -> Boxed<'_, Health> {
        Box::pin(LockBackend::health(self))
    }

    fn inventory(&self) -> Option<Inventory<B::Fence>> {
        LockBackend::inventory(self)
    }

    fn capabilities(&self) -> BackendCapabilities {
        LockBackend::capabilities(self)
    }

    fn client_state(&self) -> &ClientState {
        LockBackend::client_state(self)
    }
}
