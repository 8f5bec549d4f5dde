//! A decorator that gives every secret to the net before its use, and every answer.

use std::error::Error;
use std::fmt::Debug;
use std::sync::Mutex;

use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, KeyWatch, LookupBy,
    LookupRequest, ReleaseRequest, WatchRequest,
};
use syncguard_core::{
    ExtendResult, Key, LockBackend, LockError, LockId, LockInfo, ReleaseResult, forward,
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
    let events = net.clone();
    let options = TelemetryOptions::new()
        .with_include_raw(|_| true)
        .with_queue_capacity(100_000)
        .with_tracing()
        .with_on_event(move |event: &LockEvent| events.read("an event", &format!("{event:?}")));
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
    /// Adds the secrets of a request, which must not show in it.
    fn ask(&self, key: Option<&Key>, lock_id: Option<LockId>, request: &impl Debug) {
        if let Some(key) = key {
            self.net.add(key.expose());
        }
        if let Some(lock_id) = lock_id {
            self.net.add(lock_id.expose());
        }
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
        self.ask(Some(&request.key), Some(request.lock_id), &request);
        self.answer(self.backend.acquire(request).await)
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.ask(None, Some(request.lock_id), &request);
        self.answer(self.backend.release(request).await)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.ask(None, Some(request.lock_id), &request);
        self.answer(self.backend.extend(request).await)
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.ask(Some(&request.key), None, &request);
        self.answer(self.backend.is_locked(request).await)
    }

    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        match &request.by {
            LookupBy::Key(key) => self.ask(Some(key), None, &request),
            LookupBy::LockId(lock_id) => self.ask(None, Some(*lock_id), &request),
        }
        self.answer(self.backend.lookup(request).await)
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.ask(Some(&request.key), None, &request);
        self.backend.watch(request).await
    }

    // The keys of its answers are secrets since they were locked.
    forward!(backend: health, inventory, capabilities, client_state);
}
