//! The decorator.

use std::fmt;
use std::sync::Arc;

use syncguard_core::authoring::recipes::Refusal;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, ExtendRequest, IsLockedRequest, LookupBy, LookupRequest,
    ReleaseRequest,
};
use syncguard_core::observe::LockObserver;
use syncguard_core::shared::ClientState;
use syncguard_core::{ExtendResult, LockBackend, LockError, LockInfo, ReleaseResult, forward};

use crate::event::Outcome;
use crate::operation::Pending;
use crate::queue::Queue;
use crate::{EventKind, Reason, TelemetryOptions};

/// Wraps a backend so that each of its operations becomes an event. TypeScript: `withTelemetry`.
///
/// The call needs no runtime.
///
/// ```
/// use syncguard_core::{DynBackend, LockBackend};
/// use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};
///
/// /// Works for any backend, also for one that was chosen at run time.
/// fn observed(backend: DynBackend) -> Telemetry<DynBackend> {
///     with_telemetry(backend, TelemetryOptions::new().with_on_event(|event| println!("{event:?}")))
/// }
/// ```
pub fn with_telemetry<B: LockBackend>(backend: B, options: TelemetryOptions) -> Telemetry<B> {
    let queue = Arc::new(Queue::new(backend.capabilities().backend, options));
    let mut defaults = backend.client_state().clone();
    if queue.has_listeners() {
        let inner = defaults.observer().clone();
        defaults = defaults.with_observer(observer(&queue).and(inner));
    }
    Telemetry { inner: backend, queue, defaults: Arc::new(defaults) }
}

fn observer(queue: &Arc<Queue>) -> LockObserver {
    let logs = queue.logs();
    let queue = Arc::clone(queue);
    let observer = LockObserver::new(move |observation| queue.observe(observation));
    if logs { observer.with_logging() } else { observer }
}

/// A backend whose operations become events: see [`with_telemetry`].
///
/// Its answers are exactly those of the backend inside. Clones share their queue and counters.
#[derive(Clone)]
pub struct Telemetry<B> {
    inner: B,
    queue: Arc<Queue>,
    defaults: Arc<ClientState>,
}

impl<B: LockBackend> Telemetry<B> {
    /// The backend inside. Operations on it give no events.
    #[must_use]
    pub fn inner(&self) -> &B {
        &self.inner
    }

    /// A handle to the telemetry itself, which works also after the backend has moved into a
    /// [`DynBackend`](syncguard_core::DynBackend) or a [`Locker`](syncguard_core::Locker).
    #[must_use]
    pub fn telemetry(&self) -> TelemetryHandle {
        TelemetryHandle(Arc::clone(&self.queue))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend> LockBackend for Telemetry<B> {
    type Fence = B::Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult<B::Fence>, LockError> {
        let (key, lock_id) = (Some(&request.key), Some(request.lock_id));
        let pending = Pending::start(&self.queue, EventKind::Acquire, key, lock_id);
        let state = self.inner.client_state();
        let holder = self.queue.has_listeners().then(|| state.holder_of(&request).clone());
        let outcome = |result: &AcquireResult<B::Fence>| match result {
            AcquireResult::Acquired(_) => Outcome::Ok,
            AcquireResult::Busy(_) => Outcome::No(Some(Reason::Locked)),
            AcquireResult::Refused(Refusal::Taken { .. }) => Outcome::No(Some(Reason::Taken)),
            AcquireResult::Refused(Refusal::TooEarly { .. }) => Outcome::No(Some(Reason::TooEarly)),
        };
        let result = self.inner.acquire(request).await;
        pending.end_with_holder(result, outcome, |result| holder.filter(|_| result.is_acquired()))
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let lock_id = Some(request.lock_id);
        let pending = Pending::start(&self.queue, EventKind::Release, None, lock_id);
        pending.end(self.inner.release(request).await, |result| match result {
            ReleaseResult::NotHeld(why) => Outcome::No(Reason::of(*why)),
            _ => Outcome::Ok,
        })
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let lock_id = Some(request.lock_id);
        let pending = Pending::start(&self.queue, EventKind::Extend, None, lock_id);
        pending.end(self.inner.extend(request).await, |result| match result {
            ExtendResult::Extended { .. } => Outcome::Ok,
            ExtendResult::NotHeld(why) => Outcome::No(Reason::of(*why)),
            // The lock is held, but its expiry is not the expected one.
            _ => Outcome::No(None),
        })
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let key = Some(&request.key);
        let pending = Pending::start(&self.queue, EventKind::IsLocked, key, None);
        pending.end(self.inner.is_locked(request).await, |locked| Outcome::yes_or_no(*locked))
    }

    async fn lookup(
        &self,
        request: LookupRequest,
    ) -> Result<Option<LockInfo<B::Fence>>, LockError> {
        let (key, lock_id) = match &request.by {
            LookupBy::Key(key) => (Some(key), None),
            LookupBy::LockId(lock_id) => (None, Some(*lock_id)),
        };
        let pending = Pending::start(&self.queue, EventKind::Lookup, key, lock_id);
        let result = self.inner.lookup(request).await;
        pending.end_with_holder(
            result,
            |found| Outcome::yes_or_no(found.is_some()),
            |found| found.as_ref().and_then(|info| info.holder.clone()),
        )
    }

    fn client_state(&self) -> &ClientState {
        &self.defaults
    }

    forward!(inner: watch, health, inventory, capabilities);
}

impl<B: fmt::Debug> fmt::Debug for Telemetry<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Telemetry").field("inner", &self.inner).finish_non_exhaustive()
    }
}

/// The telemetry of a backend: counts of dropped events and panics, and a way to wait for the callbacks.
#[derive(Clone)]
pub struct TelemetryHandle(Arc<Queue>);

impl TelemetryHandle {
    /// How many events were dropped because the callbacks did not keep up and the queue was full.
    #[must_use]
    pub fn dropped_events(&self) -> u64 {
        self.0.dropped()
    }

    /// How many calls of callbacks, sinks and the raw predicate panicked.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.0.panics()
    }

    /// Waits until every event so far has been through the callbacks: for the end of a program, and for tests.
    ///
    /// The wait has no limit of its own. In a test with tokio's paused clock, the clock advances to the next timer
    /// meanwhile.
    ///
    /// # Cancel safety
    ///
    /// Safe: queued events are delivered all the same.
    pub async fn flush(&self) {
        self.0.flush().await;
    }
}

impl fmt::Debug for TelemetryHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TelemetryHandle")
            .field("dropped_events", &self.dropped_events())
            .field("panics", &self.panics())
            .finish()
    }
}
