//! Observed backends and their events.

#![allow(dead_code, reason = "not every feature needs all of it")]

#[cfg(feature = "opentelemetry")]
pub(crate) mod metrics;

use std::collections::VecDeque;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_memory::contract::{
    AcquireRequest, AcquireResult, Acquired, ExtendRequest, IsLockedRequest, LookupRequest,
    ReleaseRequest,
};
use syncguard_memory::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockError, LockInfo, MemoryBackend, ReleaseResult,
    forward,
};
use syncguard_telemetry::{
    LockEvent, Telemetry, TelemetryHandle, TelemetryOptions, with_telemetry,
};

pub(crate) const KEY: &str = "payment:4711-of-mrs-smith";
pub(crate) const TTL: Duration = Duration::from_secs(30);

/// The events of one backend.
#[derive(Clone, Default)]
pub(crate) struct Seen(Arc<Mutex<Vec<LockEvent>>>);

impl Seen {
    pub(crate) fn options(&self) -> TelemetryOptions {
        TelemetryOptions::new().with_on_event(self.callback())
    }

    pub(crate) fn callback(&self) -> impl Fn(&LockEvent) + Send + Sync + 'static {
        let events = Arc::clone(&self.0);
        move |event| events.lock().unwrap().push(event.clone())
    }

    /// The events since the last call.
    pub(crate) async fn events(&self, of: &TelemetryHandle) -> Vec<LockEvent> {
        // A paused clock advances while all tasks wait, but not while a blocking task of tokio runs.
        let (done, wait) = channel::<()>();
        let clock_stands = tokio::task::spawn_blocking(move || wait.recv());
        of.flush().await;
        drop(done);
        clock_stands.await.unwrap().unwrap_err();
        std::mem::take(&mut *self.0.lock().unwrap())
    }

    pub(crate) async fn lines(&self, of: &TelemetryHandle) -> Vec<String> {
        self.events(of).await.iter().map(line).collect()
    }
}

/// The event in one line: `wait fail locked !AcquisitionTimeout attempts=3 200ms`.
pub(crate) fn line(event: &LockEvent) -> String {
    let parts = [
        Some(event.kind.to_string()),
        Some(event.result.to_string()),
        event.reason.map(|reason| reason.to_string()),
        event.error_code.map(|code| format!("!{code}")),
        event.loss.map(|loss| loss.as_str().to_owned()),
        event.attempts.map(|attempts| format!("attempts={attempts}")),
        (!event.duration.is_zero()).then(|| format!("{}ms", event.duration.as_millis())),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

/// Wraps a backend, and returns it with its handle and its events.
pub(crate) fn observed<B: LockBackend>(backend: B) -> (Telemetry<B>, TelemetryHandle, Seen) {
    let seen = Seen::default();
    let backend = with_telemetry(backend, seen.options());
    let handle = backend.telemetry();
    (backend, handle, seen)
}

pub(crate) fn request(key: &str) -> AcquireRequest {
    AcquireRequest::new(key, TTL).unwrap()
}

pub(crate) async fn take<B: LockBackend>(backend: &B, key: &str) -> Acquired<B::Fence> {
    backend.acquire(request(key)).await.unwrap().acquired().unwrap()
}

/// A store in memory that takes time and fails on demand.
#[derive(Clone, Default)]
pub(crate) struct Store {
    pub(crate) inner: MemoryBackend,
    latency: Duration,
    failures: Arc<Mutex<VecDeque<ErrorCode>>>,
}

impl Store {
    pub(crate) fn slow(latency: Duration) -> Self {
        Self { latency, ..Self::default() }
    }

    /// Lets the next `times` operations fail.
    pub(crate) fn fail(&self, code: ErrorCode, times: usize) {
        self.failures.lock().unwrap().extend(std::iter::repeat_n(code, times));
    }

    async fn travel(&self) -> Result<(), LockError> {
        if !self.latency.is_zero() {
            tokio::time::sleep(self.latency).await;
        }
        match self.failures.lock().unwrap().pop_front() {
            Some(code) => Err(LockError::new(code, "as the test wants it")),
            None => Ok(()),
        }
    }
}

impl LockBackend for Store {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        self.travel().await?;
        self.inner.acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.travel().await?;
        self.inner.release(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.travel().await?;
        self.inner.extend(request).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.travel().await?;
        self.inner.is_locked(request).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.travel().await?;
        self.inner.lookup(request).await
    }

    forward!(inner: capabilities, client_state);
}
