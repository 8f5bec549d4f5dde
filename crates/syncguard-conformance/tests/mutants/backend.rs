//! A backend that behaves as if a network were between it and the store.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_conformance::{Harness, Late};
use syncguard_core::authoring::StoreClock;
use syncguard_core::authoring::cancel::{self, Caller, ExtendBatches, Unsettled};
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, BackendCapabilities, ExtendRequest, IsLockedRequest, KeyWatch,
    LookupRequest, ReleaseRequest, TimeAuthority, WatchRequest,
};
use syncguard_core::inventory::Inventory;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    CancellationToken, Contention, ErrorCode, ExtendResult, Fence, Key, LockBackend, LockError,
    LockId, LockInfo, ReleaseResult, Timestamp,
};
use tokio::time::Instant;

use crate::mutants::flaws::Flaw;
use crate::mutants::gate::Gate;
use crate::mutants::sending::BOUND;
use crate::mutants::store::Store;

/// A store with at most one flaw.
pub(crate) struct Reference(Backend);

impl Reference {
    pub(crate) fn new(flaw: Option<Flaw>) -> Self {
        Self(Backend::new(flaw))
    }
}

impl Harness for Reference {
    type Backend = Backend;

    const PAUSED_CLOCK: bool = true;

    async fn connect(&self) -> Backend {
        if self.0.has(Flaw::each_connection_has_its_own_locks) {
            return Backend::new(self.0.flaw);
        }
        self.0.handle()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.with(|store, _| store.set_fence_counter(key, last));
    }

    async fn corrupt(&self, key: &Key) -> bool {
        self.0.with(|store, _| store.make_garbage(key));
        true
    }

    async fn connect_late(&self) -> Option<Late<Backend>> {
        let backend = self.0.over(Gate::default());
        let gate = backend.gate.clone();
        Some(Late::new(backend, BOUND + Duration::from_millis(50), gate))
    }
}

pub(crate) struct Backend {
    flaw: Option<Flaw>,
    store: Arc<Mutex<Store>>,
    started: Instant,
    /// Operations in progress.
    busy: Arc<()>,
    pub(crate) gate: Gate,
    pub(crate) clock: Arc<StoreClock>,
    /// Acquires whose first request may still arrive.
    pub(crate) sent_twice: Arc<Mutex<HashMap<LockId, Unsettled>>>,
    guards: Arc<ClientState>,
    batches: ExtendBatches,
}

impl Clone for Backend {
    fn clone(&self) -> Self {
        if self.has(Flaw::each_clone_has_its_own_locks) {
            return Self::new(self.flaw);
        }
        self.handle()
    }
}

impl LockBackend for Backend {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let (backend, asked) = (self.handle(), request.repeat());
        let operation = move |caller: Caller| backend.send_acquire(asked, caller);
        let nobody = Caller::new(None);
        let token = request.cancellation.clone();
        let request = self.visible_token(request, |request| &mut request.cancellation);
        if let Some(token) = token.filter(|_| self.has(Flaw::releases_when_a_token_fires_late)) {
            let (backend, release) = (self.handle(), ReleaseRequest::new(request.lock_id));
            tokio::spawn(async move {
                token.cancelled().await;
                let _ = backend.release(release).await;
            });
        }
        match self.flaw {
            Some(Flaw::a_dropped_acquire_stays) => match tokio::spawn(operation(nobody)).await {
                Ok(answer) => answer,
                Err(_) => Err(LockError::internal("the runtime has shut down")),
            },
            Some(Flaw::a_dropped_acquire_stops_half_way) => operation(nobody).await,
            Some(Flaw::an_aborted_acquire_stays) => {
                cancel::finish(request.cancellation.as_ref(), operation(nobody)).await
            }
            Some(Flaw::sends_before_it_looks_at_the_token) => {
                let answer = operation(nobody).await;
                cancel::check(request.cancellation.as_ref())?;
                answer
            }
            _ => {
                let operation = |_, caller| operation(caller);
                cancel::finish_acquire_settled(self, request, operation).await
            }
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        let raised = request.raised().map(|(key, at_least)| (key.clone(), at_least));
        let (backend, hint) = (self.handle(), request.key_hint);
        let lock_id = self.with(|store, _| store.hinted(request.lock_id, hint.as_ref()))?;
        let operation = async move {
            if !backend.has(Flaw::release_reads_and_deletes_later)
                && !backend.has(Flaw::releases_half_when_dropped)
            {
                return backend.ask_to_release(lock_id, raised).await;
            }
            travel().await;
            let found = backend.with(|store, now| store.releasable(lock_id, now))?;
            if backend.has(Flaw::releases_half_when_dropped) {
                backend.with(|store, _| store.forget_id(lock_id));
            }
            travel().await;
            let answer = match found {
                Ok(name) => backend.with(|store, _| store.delete(lock_id, &name)),
                Err(why) => ReleaseResult::NotHeld(why),
            };
            travel().await;
            Ok(answer)
        };
        self.run(request.cancellation, Flaw::releases_half_when_dropped, operation).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let (signal, watch) = KeyWatch::new();
        let key = &request.key;
        let late = self.has(Flaw::listens_after_its_answer);
        let mut signal = Some(signal);
        if let Some(signal) = signal.take_if(|_| !late) {
            self.with(|store, _| store.watch(key, signal));
        }
        travel().await;
        let is_live = self.with(|store, now| store.is_watched_lock_live(key, now));
        travel().await;
        if let Some(signal) = signal {
            self.with(|store, _| store.watch(key, signal));
        }
        Some(if is_live { watch.with_locked() } else { watch })
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let mut request = self.visible_token(request, |request| &mut request.cancellation);
        let (backend, token) = (self.handle(), request.cancellation.clone());
        let hint = request.key_hint.take();
        request.lock_id = self.with(|store, _| store.hinted(request.lock_id, hint.as_ref()))?;
        let batch = self.handle();
        let extend_many = move |requests| batch.handle().extend_many(requests);
        if let Some(answer) = self.batches.extend(0, &request, extend_many).await {
            return answer;
        }
        let operation = async move {
            if !backend.has(Flaw::extend_reads_and_writes_later)
                && !backend.has(Flaw::extends_half_when_dropped)
            {
                let work = move |store: &mut Store, now| store.extend(&request, now);
                return backend.ask_to_extend(work).await;
            }
            travel().await;
            let (name, mut lock) = match backend.with(|store, now| store.extended(&request, now))? {
                Ok(found) => found,
                Err(answer) => {
                    travel().await;
                    return Ok(answer);
                }
            };
            if backend.has(Flaw::extends_half_when_dropped) {
                backend.with(|store, _| store.take_out(&name));
            }
            // Two extends that have read the same expiry write different ones.
            let reported = lock.expires_at;
            travel().await;
            if backend.has(Flaw::extend_reads_and_writes_later) {
                lock.expires_at += 1;
            }
            let _ = backend.with(|store, _| store.store(name, lock))?;
            travel().await;
            Ok(ExtendResult::Extended { expires_at: Timestamp::from_millis(reported)? })
        };
        self.run(token, Flaw::extends_half_when_dropped, operation).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        cancel::check(request.cancellation.as_ref())?;
        travel().await;
        if self.has(Flaw::cleanup_deletes_the_next_lock)
            && self.with(|store, now| store.may_be_cleared(&request.key, now))
        {
            let (backend, key) = (self.handle(), request.key.clone());
            tokio::spawn(async move {
                travel().await;
                backend.with(|store, _| store.clear(&key));
            });
        }
        self.with(|store, now| store.is_locked(&request.key, now))
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        cancel::check(request.cancellation.as_ref())?;
        travel().await;
        let found = self.with(|store, now| {
            let by = store.hinted_lookup(request.by, request.key_hint.as_ref())?;
            store.lookup(&by, now)
        });
        if !self.has(Flaw::reads_the_holder_later) {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(3)).await;
        Ok(found?.map(|info| self.with(|store, _| store.with_holder_of_now(info))))
    }

    fn inventory(&self) -> Option<Inventory> {
        Some(Inventory::new(self.handle()))
    }

    fn capabilities(&self) -> BackendCapabilities {
        let name = if self.has(Flaw::has_no_name) { "" } else { "reference" };
        let mut capabilities =
            BackendCapabilities::new::<Fence>(name, TimeAuthority::Server).with_fence_windows();
        capabilities.supports_fencing = !self.has(Flaw::lies_about_fencing);
        capabilities
    }

    fn client_state(&self) -> &ClientState {
        &self.guards
    }
}

impl Backend {
    fn new(flaw: Option<Flaw>) -> Self {
        let backend = Self {
            flaw,
            store: Arc::new(Mutex::new(Store::new(flaw))),
            started: Instant::now(),
            busy: Arc::default(),
            gate: Gate::default(),
            clock: Arc::default(),
            sent_twice: Arc::default(),
            guards: Arc::default(),
            batches: ExtendBatches::default(),
        };
        backend.over(Gate::default())
    }

    /// A connection to the same store, as if another program had made it.
    fn over(&self, gate: Gate) -> Self {
        let (clock, guards) = (Arc::new(StoreClock::default()), Arc::default());
        if let Ok(now) = Timestamp::from_millis(self.time()) {
            clock.learn(Instant::now(), now);
        }
        Self { gate, clock, sent_twice: Arc::default(), guards, ..self.handle() }
    }

    pub(crate) fn handle(&self) -> Self {
        Self {
            flaw: self.flaw,
            store: Arc::clone(&self.store),
            started: self.started,
            busy: Arc::clone(&self.busy),
            gate: self.gate.clone(),
            clock: Arc::clone(&self.clock),
            sent_twice: Arc::clone(&self.sent_twice),
            guards: Arc::clone(&self.guards),
            batches: self.batches.clone(),
        }
    }

    async fn send_acquire(
        self,
        request: AcquireRequest,
        caller: Caller,
    ) -> Result<AcquireResult, LockError> {
        match self.flaw {
            Some(Flaw::never_answers) => std::future::pending().await,
            Some(Flaw::panics) => panic!("out of order"),
            _ => {}
        }
        let answer = match self.flawed_acquire(&request).await {
            Some(answer) => answer,
            None => self.ask_for_a_lock(request.repeat(), &caller).await,
        };
        if let Ok(AcquireResult::Acquired(acquired)) = &answer
            && !self.has(Flaw::never_warns)
        {
            acquired.fence.warn_near_limit("reference", &request.key);
        }
        answer
    }

    async fn extend_many(
        self,
        requests: Vec<ExtendRequest>,
    ) -> Result<Vec<Option<Timestamp>>, LockError> {
        travel().await;
        let mut answers = Vec::new();
        for mut request in requests {
            if self.has(Flaw::a_batch_expects_nothing) {
                request.expected_expiry = None;
            }
            answers.push(match self.with(|store, now| store.extend(&request, now))? {
                ExtendResult::Extended { expires_at } => Some(expires_at),
                _ => None,
            });
        }
        if self.has(Flaw::a_batch_has_one_answer) {
            let first = answers.iter().flatten().next().copied();
            answers.fill(first);
        }
        travel().await;
        Ok(answers)
    }

    /// An acquire that is not atomic; `None` without that flaw.
    async fn flawed_acquire(
        &self,
        request: &AcquireRequest,
    ) -> Option<Result<AcquireResult, LockError>> {
        let is_overloaded = self.has(Flaw::is_overloaded_by_many_at_once);
        if is_overloaded && Arc::strong_count(&self.busy) > 24 {
            travel().await;
            return Some(Err(LockError::new(ErrorCode::RateLimited, "too many at once")));
        }
        let answer = match self.flaw {
            Some(
                flaw @ (Flaw::checks_first_and_writes_later
                | Flaw::takes_expired_locks_over_in_two_steps
                | Flaw::misses_a_repeated_request_on_its_way),
            ) => {
                travel().await;
                // Looks first, and takes the key later if it is free then.
                match self.with(|store, now| store.held(request, now)) {
                    Ok(None) => {
                        if flaw != Flaw::takes_expired_locks_over_in_two_steps
                            || self.with(|store, _| store.has_record(&request.key))
                        {
                            travel().await;
                        }
                        let looks_again = flaw == Flaw::misses_a_repeated_request_on_its_way;
                        self.with(|store, now| match store.held(request, now)? {
                            Some(_) if looks_again => {
                                Ok(AcquireResult::Busy(Contention::default()))
                            }
                            _ => store.grant(request, now),
                        })
                    }
                    Ok(Some(answer)) => Ok(answer),
                    Err(error) => Err(error),
                }
            }
            Some(Flaw::waits_for_the_holder | Flaw::waits_for_the_holder_and_ignores_tokens) => {
                travel().await;
                loop {
                    match self.with(|store, now| store.acquire(request, now)) {
                        Ok(AcquireResult::Busy(_)) => {
                            tokio::time::sleep(Duration::from_millis(5)).await;
                        }
                        answer => break answer,
                    }
                }
            }
            _ => return None,
        };
        travel().await;
        Some(answer)
    }

    /// Runs a release or an extend to its end, also if its caller is gone.
    async fn run<T: Send + 'static>(
        &self,
        token: Option<CancellationToken>,
        half_when: Flaw,
        operation: impl Future<Output = Result<T, LockError>> + Send + 'static,
    ) -> Result<T, LockError> {
        if self.has(Flaw::sends_before_it_looks_at_the_token) {
            let answer = operation.await;
            cancel::check(token.as_ref())?;
            return answer;
        }
        if !self.has(half_when) {
            return cancel::finish(token.as_ref(), operation).await;
        }
        cancel::check(token.as_ref())?;
        let token = token.unwrap_or_default();
        tokio::select! {
            biased;
            answer = operation => answer,
            () = token.cancelled() => Err(LockError::aborted()),
        }
    }

    /// The request, without its token if that is the flaw.
    pub(crate) fn visible_token<R>(
        &self,
        mut request: R,
        token: fn(&mut R) -> &mut Option<CancellationToken>,
    ) -> R {
        if self.has(Flaw::ignores_tokens) || self.has(Flaw::waits_for_the_holder_and_ignores_tokens)
        {
            *token(&mut request) = None;
        }
        request
    }

    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut Store, u64) -> T) -> T {
        let now = self.time();
        work(&mut self.store.lock().unwrap(), now)
    }

    /// The time of the store's clock.
    pub(crate) fn time(&self) -> u64 {
        // A time in 2026.
        let now = 1_780_000_000_000 + u64::try_from(self.started.elapsed().as_millis()).unwrap();
        if self.has(Flaw::counts_in_seconds) { now / 1000 * 1000 } else { now }
    }

    pub(crate) fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// A message on the network: other tasks run meanwhile, and the caller may disappear.
pub(crate) async fn travel() {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}
