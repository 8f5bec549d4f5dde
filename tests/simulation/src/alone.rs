//! A twin without a network, on the machine's time, for comparison with the real server.

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ClientState, ExtendRequest,
    IsLockedRequest, KeyWatch, LookupRequest, ReleaseRequest, WatchRequest,
};
use syncguard_core::inventory::Inventory;
use syncguard_core::{ExtendResult, Fence, LockBackend, LockError, LockInfo, ReleaseResult};

use crate::store::{Firestore, Server};
use crate::twin::{Kind, Twin};

/// A store's twin behind the backend's twin, without a network: each request is carried out to its end at once.
#[derive(Clone)]
pub struct Alone(Twin);

impl std::fmt::Debug for Alone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Alone").field("of", &self.capabilities().backend).finish_non_exhaustive()
    }
}

impl Alone {
    /// The twin of the PostgreSQL statements.
    #[must_use]
    pub fn postgres() -> Self {
        let server = Server::Postgres(Box::default());
        Self(Twin::alone(server, Kind::Postgres, "twin of postgres"))
    }

    /// The twin of the Firestore backend, with the twin of a database.
    #[must_use]
    pub fn firestore() -> Self {
        let store = Box::new(Firestore::default());
        let server = Server::Atomic(store);
        Self(Twin::alone(server, Kind::Firestore, "twin of firestore"))
    }

    /// Holds the next write back, so its sender gets no answer.
    pub fn hold_next(&self) {
        self.0.hold_next();
    }

    /// Carries out the held writes. Returns true if there were any.
    #[must_use]
    pub fn deliver(&self) -> bool {
        self.0.deliver()
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Alone {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
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

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.0.lookup(request).await
    }

    async fn watch(&self, _: WatchRequest) -> Option<KeyWatch> {
        None
    }

    fn inventory(&self) -> Option<Inventory> {
        None
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.0.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        self.0.client_state()
    }
}
