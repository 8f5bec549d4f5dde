//! A backend that misbehaves on request.

pub(crate) mod hub;
pub(crate) mod log;
pub(crate) mod store;

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use syncguard_core::authoring::cancel::{self, ExtendBatches};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, Holder, IsLockedRequest,
    KeyWatch, LookupRequest, ReleaseRequest, WatchRequest,
};
use syncguard_core::shared::{ClientState, ReleaseErrorContext, ReleaseErrorHandler};
use syncguard_core::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockError, LockId, LockInfo, ReleaseResult,
    Timestamp,
};
use tokio::runtime::{Builder, Runtime};
use tokio::time::{Instant, sleep};

use self::store::SmallStore;

/// A store behind a slow and unreliable network.
#[derive(Clone)]
pub(crate) struct FaultyBackend {
    pub(crate) store: SmallStore,
    pub(crate) behaviour: Arc<Behaviour>,
    guards: ClientState,
    batches: ExtendBatches,
}

#[derive(Default)]
pub(crate) struct Behaviour {
    pub(crate) acquire: Mutex<Trouble>,
    pub(crate) extend: Mutex<Trouble>,
    pub(crate) release: Mutex<Trouble>,
    pub(crate) batch: Mutex<Trouble>,
    /// The batches of extends, and when they were sent.
    pub(crate) batches: Mutex<Vec<(Instant, Vec<LockId>)>>,
    /// The lock that batches leave out.
    pub(crate) left_out: Mutex<Option<LockId>>,
    pub(crate) acquires: AtomicU32,
    /// The holder in the last acquire.
    pub(crate) holder: Mutex<Option<Holder>>,
    pub(crate) extends: AtomicU32,
    pub(crate) releases: AtomicU32,
    /// The number of releases in flight.
    pub(crate) releasing: AtomicU32,
    /// How long it takes to open a watch; with `None` the store has no signals.
    pub(crate) watch_opens_after: Mutex<Option<Duration>>,
    /// Each watch is over when it begins, and says correctly whether the lock was held.
    pub(crate) watches_end_at_once: AtomicBool,
}

/// The faults of one kind of operation.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Trouble {
    /// How long the request travels.
    pub(crate) before: Duration,
    /// How long the reply travels.
    pub(crate) after: Duration,
    /// Fail with this error and send nothing to the store. The outcome of a timeout is unknown to the caller.
    pub(crate) fails: Option<ErrorCode>,
    /// The failure says that the record is lost.
    pub(crate) loses_record: bool,
    /// The store carries out the request, but the caller gets a timeout.
    pub(crate) reply_lost: bool,
    /// How many times the store carries out the request and the connection breaks before the answer.
    pub(crate) breaks: u32,
    /// The backend itself panics.
    pub(crate) panics: bool,
}

impl FaultyBackend {
    pub(crate) fn new() -> Self {
        Self::with_client_state(ClientState::default())
    }

    pub(crate) fn with_client_state(guards: ClientState) -> Self {
        let (behaviour, batches) = (Arc::default(), ExtendBatches::default());
        Self { store: SmallStore::new(), behaviour, guards, batches }
    }

    /// The faults of acquires from now on.
    pub(crate) fn on_acquire(&self) -> MutexGuard<'_, Trouble> {
        self.behaviour.acquire.lock().unwrap()
    }

    /// The faults of extends from now on.
    pub(crate) fn on_extend(&self) -> MutexGuard<'_, Trouble> {
        self.behaviour.extend.lock().unwrap()
    }

    /// The faults of batches of extends from now on.
    pub(crate) fn on_batch(&self) -> MutexGuard<'_, Trouble> {
        self.behaviour.batch.lock().unwrap()
    }

    /// Takes the batches that were sent until now.
    pub(crate) fn take_batches(&self) -> Vec<(Instant, Vec<LockId>)> {
        std::mem::take(&mut self.behaviour.batches.lock().unwrap())
    }

    /// The faults of releases from now on.
    pub(crate) fn on_release(&self) -> MutexGuard<'_, Trouble> {
        self.behaviour.release.lock().unwrap()
    }

    /// The number of acquires that were sent.
    pub(crate) fn acquires(&self) -> u32 {
        self.behaviour.acquires.load(Ordering::Relaxed)
    }

    pub(crate) fn extends(&self) -> u32 {
        self.behaviour.extends.load(Ordering::Relaxed)
    }

    pub(crate) fn releases(&self) -> u32 {
        self.behaviour.releases.load(Ordering::Relaxed)
    }

    async fn extend_many(
        self,
        requests: Vec<ExtendRequest>,
    ) -> Result<Vec<Option<Timestamp>>, LockError> {
        let ids = requests.iter().map(|request| request.lock_id).collect();
        self.behaviour.batches.lock().unwrap().push((Instant::now(), ids));
        let trouble = *self.on_batch();
        let left_out = *self.behaviour.left_out.lock().unwrap();
        Self::travel(trouble, async {
            let mut answers = Vec::new();
            for request in requests {
                let answer = if left_out == Some(request.lock_id) {
                    None
                } else {
                    Some(self.store.extend(request).await?)
                };
                answers.push(match answer {
                    Some(ExtendResult::Extended { expires_at }) => Some(expires_at),
                    _ => None,
                });
            }
            Ok(answers)
        })
        .await
    }

    async fn travel<T>(
        trouble: Trouble,
        store: impl Future<Output = Result<T, LockError>>,
    ) -> Result<T, LockError> {
        sleep(trouble.before).await;
        assert!(!trouble.panics, "told to panic");
        if let Some(code) = trouble.fails {
            let error = LockError::new(code, "told to fail");
            let error = if trouble.loses_record { error.with_record_lost() } else { error };
            let unknown = code == ErrorCode::NetworkTimeout;
            return Err(if unknown { error.with_unknown_outcome() } else { error });
        }
        let result = store.await;
        sleep(trouble.after).await;
        let error = match trouble {
            Trouble { breaks: 1.., .. } => ErrorCode::ServiceUnavailable,
            Trouble { reply_lost: true, .. } => ErrorCode::NetworkTimeout,
            _ => return result,
        };
        Err(LockError::new(error, "the answer was lost").with_unknown_outcome())
    }
}

fn count(counter: &AtomicU32) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl LockBackend for FaultyBackend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let store = self.store.clone();
        let trouble = *self.on_acquire();
        count(&self.behaviour.acquires);
        self.behaviour.holder.lock().unwrap().clone_from(&request.holder);
        cancel::finish_acquire(self, request, async move |request, _| {
            let sent = AcquireRequest::new(request.key, request.ttl)?.with_lock_id(request.lock_id);
            Self::travel(trouble, store.acquire(sent)).await
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let store = self.store.clone();
        let trouble = *self.on_release();
        count(&self.behaviour.releases);
        let behaviour = Arc::clone(&self.behaviour);
        cancel::finish(request.cancellation.as_ref(), async move {
            count(&behaviour.releasing);
            let release = store.release(ReleaseRequest::new(request.lock_id));
            let result = Self::travel(trouble, release).await;
            behaviour.releasing.fetch_sub(1, Ordering::Relaxed);
            result
        })
        .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let this = self.clone();
        let extend_many = move |requests| this.clone().extend_many(requests);
        if let Some(result) = self.batches.extend(0, &request, extend_many).await {
            return result;
        }
        let store = self.store.clone();
        let mut sent = ExtendRequest::new(request.lock_id, request.ttl)?;
        sent.expected_expiry = request.expected_expiry;
        let trouble = *self.on_extend();
        self.on_extend().breaks = trouble.breaks.saturating_sub(1);
        count(&self.behaviour.extends);
        cancel::finish(request.cancellation.as_ref(), async move {
            Self::travel(trouble, store.extend(sent)).await
        })
        .await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.store.is_locked(request).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.store.lookup(request).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let watch_opens_after = *self.behaviour.watch_opens_after.lock().unwrap();
        sleep(watch_opens_after?).await;
        if self.behaviour.watches_end_at_once.load(Ordering::Relaxed) {
            let is_locked = is_locked(&self.store, request.key.expose()).await;
            let (_, watch) = KeyWatch::new();
            return Some(if is_locked { watch.with_locked() } else { watch });
        }
        self.store.watch(request).await
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.store.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        &self.guards
    }
}

pub(crate) async fn is_locked(backend: &impl LockBackend, key: &str) -> bool {
    backend.is_locked(IsLockedRequest::new(key).unwrap()).await.unwrap()
}

/// A handler that records the errors that it gets.
#[derive(Clone, Default)]
pub(crate) struct ReportedErrors(Arc<Mutex<Vec<(LockError, ReleaseErrorContext)>>>);

impl ReportedErrors {
    pub(crate) fn handler(&self) -> ReleaseErrorHandler {
        let heard = Arc::clone(&self.0);
        ReleaseErrorHandler::new(move |error, context| {
            heard.lock().unwrap().push((error.clone(), context.clone()));
        })
    }

    pub(crate) fn take(&self) -> Vec<(LockError, ReleaseErrorContext)> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

/// Lets background tasks run for a millisecond.
pub(crate) async fn settle() {
    sleep(Duration::from_millis(1)).await;
}

/// A runtime for tests in which a runtime ends.
pub(crate) fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

pub(crate) fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}
