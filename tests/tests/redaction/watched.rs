//! A decorator that gives every secret to the net before its use, and every answer.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Mutex;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, KeyWatch, LookupBy,
    LookupRequest, ReleaseRequest, WatchRequest,
};
use syncguard_core::inventory::{FenceCounter, Inventory, ListRequest, LockInventory, Page};
use syncguard_core::{
    ExtendResult, Fence, Key, LockBackend, LockError, LockId, LockInfo, ReleaseResult, forward,
};
use syncguard_telemetry::{
    LockEvent, Telemetry, TelemetryHandle, TelemetryOptions, with_telemetry,
};

use crate::net::Net;

/// A backend inside telemetry, inside the net.
#[derive(Clone)]
pub(crate) struct Watched<B> {
    backend: Telemetry<B>,
    net: Net,
}

/// Telemetry must not log raw keys and lock ids, even if its events have them.
pub(crate) fn watched<B: LockBackend>(net: &Net, backend: B) -> Watched<B> {
    let callback = {
        let net = net.clone();
        move |event: &LockEvent| net.read("an event", &format!("{event:?}"))
    };
    let options = TelemetryOptions::new()
        .with_include_raw(true)
        .with_queue_capacity(100_000)
        .with_tracing()
        .with_on_event(callback);
    let backend = with_telemetry(backend, options);
    HANDLES.lock().expect("no panic").push(backend.telemetry());
    Watched { backend, net: net.clone() }
}

/// The handles of all backends, to wait for their last events.
static HANDLES: Mutex<Vec<TelemetryHandle>> = Mutex::new(Vec::new());

/// Waits for all events of the telemetry, which must not have dropped any.
pub(crate) async fn told() {
    let handles = HANDLES.lock().expect("no panic").clone();
    for handle in handles {
        handle.flush().await;
        assert_eq!((handle.dropped_events(), handle.panics()), (0, 0));
    }
}

impl<B: LockBackend> Watched<B> {
    fn key(&self, key: &Key) {
        self.net.add(key.expose());
    }

    fn lock_id(&self, lock_id: LockId) {
        self.net.add(lock_id.expose());
    }

    fn request(&self, request: &impl Debug) {
        self.net.read("a request", &format!("{request:?}"));
    }

    fn answer<T: Debug>(&self, result: Result<T, LockError>) -> Result<T, LockError> {
        match &result {
            Ok(answer) => self.net.read("an answer", &format!("{answer:?}")),
            Err(error) => read_error(&self.net, error),
        }
        result
    }
}

/// All printable forms of an error.
pub(crate) fn read_error(net: &Net, error: &LockError) {
    net.read("an error", &format!("{error} {error:?} {error:#?}"));
    let mut source = error.source();
    while let Some(cause) = source {
        net.read("the cause of an error", &format!("{cause} {cause:?}"));
        source = cause.source();
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Watched<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        self.key(&request.key);
        self.lock_id(request.lock_id);
        self.request(&request);
        self.answer(self.backend.acquire(request).await)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.lock_id(request.lock_id);
        self.request(&request);
        self.answer(self.backend.release(request).await)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.lock_id(request.lock_id);
        self.request(&request);
        self.answer(self.backend.extend(request).await)
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.key(&request.key);
        self.request(&request);
        self.answer(self.backend.is_locked(request).await)
    }

    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        match &request.by {
            LookupBy::Key(key) => self.key(key),
            LookupBy::LockId(lock_id) => self.lock_id(*lock_id),
        }
        self.request(&request);
        self.answer(self.backend.lookup(request).await)
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.key(&request.key);
        self.request(&request);
        self.backend.watch(request).await
    }

    fn inventory(&self) -> Option<Inventory<B::Fence>> {
        self.backend.inventory().map(|_| Inventory::new(self.clone()))
    }

    forward!(backend: capabilities, client_state);
}

/// Only called if the backend inside has one.
#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockInventory for Watched<B> {
    async fn list_locks(
        &self,
        request: ListRequest,
    ) -> Result<Page<LockInfo<B::Fence>>, LockError> {
        self.request(&request);
        let page = self.answer(self.over_all()?.list_locks(request).await)?;
        // Listed keys are secrets from now on, whatever their origin.
        for info in page.entries.clone() {
            let raw = info.expose();
            self.key(&raw.key);
            self.lock_id(raw.lock_id);
            self.net.read("a listed lock", &format!("{raw:?}"));
        }
        Ok(page)
    }

    async fn list_counters(&self, request: ListRequest) -> Result<Page<FenceCounter>, LockError> {
        self.request(&request);
        self.answer(self.over_all()?.list_counters(request).await)
    }

    async fn fence_counter(&self, key: Key) -> Result<Option<Fence>, LockError> {
        self.key(&key);
        self.answer(self.over_all()?.fence_counter(key).await)
    }

    async fn raise_counter(&self, key: Key, at_least: Fence) -> Result<Fence, LockError> {
        self.key(&key);
        self.answer(self.over_all()?.raise_counter(key, at_least).await)
    }
}

impl<B: LockBackend> Watched<B> {
    fn over_all(&self) -> Result<Inventory<B::Fence>, LockError> {
        self.backend.inventory().ok_or_else(|| LockError::internal("no inventory"))
    }
}
