//! The backend: the contract's operations over the store.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use syncguard_core::authoring::backend_url::BackendUrl;
use syncguard_core::authoring::cancel;
use syncguard_core::authoring::{ClientOptions, basic_health};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, IsLockedRequest, KeyWatch,
    LookupBy, LookupRequest, ReleaseRequest, SignalStatus, TimeAuthority, WatchRequest,
};
use syncguard_core::diagnostics::Health;
use syncguard_core::inventory::Inventory;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    ExtendResult, Fence, Key, LockBackend, LockError, LockInfo, ReleaseResult, Timestamp,
};

use crate::clock::Clock;
use crate::store::Store;

/// Locks in the memory of this process.
///
/// Clones share their locks; two backends made by [`new`](Self::new) share nothing. No operation
/// waits, so no operation can be interrupted half-way. The store itself never fails.
#[derive(Clone)]
pub struct MemoryBackend(Arc<Inner>);

struct Inner {
    store: Mutex<Store>,
    clock: Clock,
    client_state: ClientState,
}

impl MemoryBackend {
    /// Makes an empty store.
    #[must_use]
    pub fn new() -> Self {
        Self::with_client_state(ClientState::default())
    }

    /// Makes an empty store whose guards use these defaults.
    #[must_use]
    pub(crate) fn with_client_state(client_state: ClientState) -> Self {
        Self::over(Clock::new(), client_state)
    }

    /// Makes an empty store whose clock shows this time now, as for tests of what depends on the time of day.
    #[must_use]
    pub fn starting_at(unix: std::time::SystemTime) -> Self {
        Self::over(Clock::starting_at(unix), ClientState::default())
    }

    fn over(clock: Clock, client_state: ClientState) -> Self {
        let client_state = client_state.with_queues_of_single_process();
        Self(Arc::new(Inner { store: Mutex::default(), clock, client_state }))
    }

    /// Makes an empty store from a URL, like the `connect` of the other backends: `memory:` and a few
    /// options.
    ///
    /// | parameter | what it sets | default |
    /// |---|---|---|
    /// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 |
    /// | `holder` | the label of the holder, for people to read; empty is none | host name and process id |
    /// | `note` | a note beside the label | none |
    ///
    /// A URL cannot set the handler of [`ClientState::with_on_release_error`], which is code.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` for any other URL.
    ///
    /// # Cancel safety
    ///
    /// Safe: the backend connects to nothing and waits for nothing.
    pub async fn connect(url: &str) -> Result<Self, LockError> {
        std::future::ready(Self::from_url(url)).await
    }

    fn from_url(url: &str) -> Result<Self, LockError> {
        let url = BackendUrl::parse(url)?;
        if url.base() != "memory:" {
            return Err(LockError::invalid_argument(
                "the URL of a memory backend is `memory:`, and nothing but options after a `?`",
            ));
        }
        url.expect_only(&[&["dispose_timeout_ms", "holder", "note"]], &[])?;
        let mut options = ClientOptions::default();
        options.read_url(&url)?;
        Ok(Self::with_client_state(options.client_state()?))
    }

    /// Sets the last fence of a key; the next acquisition gets the fence after it. For tests near the
    /// largest fence, or of a move from another store.
    pub fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.with(|store| store.set_fence(key.clone(), last));
    }

    /// Returns how many locks are stored, including expired locks that were not deleted yet.
    #[must_use]
    pub fn stored_locks(&self) -> usize {
        self.with(|store| store.stored_locks())
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Store) -> T) -> T {
        // The store does not panic. If it did, it would still be consistent: each change is complete.
        work(&mut self.0.store.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn now(&self) -> Result<Timestamp, LockError> {
        self.0.clock.now()
    }
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for MemoryBackend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        let holder = self.0.client_state.holder_of(&request);
        let result = self.with(|store| store.acquire(&request, holder, self.now()?))?;
        if let AcquireResult::Acquired(acquired) = &result {
            acquired.fence.warn_near_limit("memory", &request.key);
        }
        Ok(result)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| Ok(store.release(&request, self.now()?)))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        let ExtendRequest { lock_id, ttl, expected_expiry, .. } = request;
        self.with(|store| store.extend(lock_id, ttl, expected_expiry, self.now()?))
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| Ok(store.by_key(&request.key, self.now()?).is_some()))
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        self.with(|store| {
            let now = self.now()?;
            Ok(match &request.by {
                LookupBy::Key(key) => store.by_key(key, now),
                LookupBy::LockId(lock_id) => store.by_lock_id(*lock_id, now),
            })
        })
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.with(|store| Some(store.watch(request.key, self.now().ok()?)))
    }

    async fn health(&self) -> Health {
        basic_health(self, |_| SignalStatus::Working).await
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.clone()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("memory", TimeAuthority::Server).with_fence_windows()
    }

    fn client_state(&self) -> &ClientState {
        &self.0.client_state
    }
}

impl Default for MemoryBackend {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for MemoryBackend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MemoryBackend").field("stored_locks", &self.stored_locks()).finish()
    }
}
