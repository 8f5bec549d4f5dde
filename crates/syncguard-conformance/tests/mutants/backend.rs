//! The way to the store: a backend that behaves as if there were a network in between.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_conformance::Harness;
use syncguard_core::{
    AcquireRequest, AcquireResult, BackendCapabilities, CancellationToken, ErrorCode,
    ExtendRequest, ExtendResult, Fence, GuardDefaults, IsLockedRequest, Key, LockBackend,
    LockError, LockInfo, LookupRequest, ReleaseRequest, ReleaseResult, TimeAuthority, cancel,
};
use tokio::time::Instant;

use crate::flaws::Flaw;
use crate::store::Store;

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
}

pub(crate) struct Backend {
    flaw: Option<Flaw>,
    store: Arc<Mutex<Store>>,
    started: Instant,
    /// Operations under way.
    busy: Arc<()>,
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
        let operation = self.handle().send_acquire(request.repeat());
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
            Some(Flaw::a_dropped_acquire_stays) => match tokio::spawn(operation).await {
                Ok(answer) => answer,
                Err(_) => Err(LockError::internal("the runtime has shut down")),
            },
            Some(Flaw::a_dropped_acquire_stops_half_way) => operation.await,
            Some(Flaw::an_aborted_acquire_stays) => {
                cancel::finish(request.cancellation.as_ref(), operation).await
            }
            Some(Flaw::sends_before_it_looks_at_the_token) => {
                let answer = operation.await;
                cancel::check(request.cancellation.as_ref())?;
                answer
            }
            _ => cancel::finish_acquire(self, request, |_, _| operation).await,
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        let (backend, lock_id) = (self.handle(), request.lock_id);
        let operation = async move {
            travel().await;
            let answer = match backend.flaw {
                Some(Flaw::release_reads_and_deletes_later) => {
                    let found = backend.with(|store, now| store.releasable(lock_id, now))?;
                    travel().await;
                    backend.with(|store, _| match found {
                        Ok(name) => Ok(store.delete(lock_id, &name)),
                        Err(why) => Ok(ReleaseResult::NotHeld(why)),
                    })
                }
                Some(Flaw::releases_half_when_dropped) => {
                    let found = backend.with(|store, now| store.releasable(lock_id, now))?;
                    backend.with(|store, _| store.forget_id(lock_id));
                    travel().await;
                    backend.with(|store, _| match found {
                        Ok(name) => Ok(store.delete(lock_id, &name)),
                        Err(why) => Ok(ReleaseResult::NotHeld(why)),
                    })
                }
                _ => backend.with(|store, now| store.release(lock_id, now)),
            };
            travel().await;
            answer
        };
        self.run(request.cancellation, Flaw::releases_half_when_dropped, operation).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let request = self.visible_token(request, |request| &mut request.cancellation);
        let (backend, lock_id, ttl) = (self.handle(), request.lock_id, request.ttl);
        let operation = async move {
            travel().await;
            let answer = match backend.flaw {
                Some(Flaw::extend_reads_and_writes_later | Flaw::extends_half_when_dropped) => {
                    let found = backend.with(|store, now| store.extended(lock_id, ttl, now))?;
                    match found {
                        Err(why) => Ok(ExtendResult::NotHeld(why)),
                        Ok((name, mut lock)) => {
                            if backend.has(Flaw::extends_half_when_dropped) {
                                backend.with(|store, _| store.take_out(&name));
                            }
                            // Two extends that read the same are told apart by what they write.
                            let reported = lock.expires_at;
                            travel().await;
                            if backend.has(Flaw::extend_reads_and_writes_later) {
                                lock.expires_at += 1;
                            }
                            let _ = backend.with(|store, _| store.store(name, lock))?;
                            syncguard_core::Timestamp::from_millis(reported)
                                .map(|expires_at| ExtendResult::Extended { expires_at })
                        }
                    }
                }
                _ => backend.with(|store, now| store.extend(lock_id, ttl, now)),
            };
            travel().await;
            answer
        };
        self.run(request.cancellation, Flaw::extends_half_when_dropped, operation).await
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
        self.with(|store, now| store.lookup(&request.by, now))
    }

    fn capabilities(&self) -> BackendCapabilities {
        let name = if self.has(Flaw::has_no_name) { "" } else { "reference" };
        let mut capabilities = BackendCapabilities::new::<Fence>(name, TimeAuthority::Server);
        capabilities.supports_fencing = !self.has(Flaw::lies_about_fencing);
        capabilities
    }

    fn guard_defaults(&self) -> &GuardDefaults {
        GuardDefaults::shared()
    }
}

impl Backend {
    fn new(flaw: Option<Flaw>) -> Self {
        let store = Arc::new(Mutex::new(Store::new(flaw)));
        Self { flaw, store, started: Instant::now(), busy: Arc::default() }
    }

    fn handle(&self) -> Self {
        Self {
            flaw: self.flaw,
            store: Arc::clone(&self.store),
            started: self.started,
            busy: Arc::clone(&self.busy),
        }
    }

    async fn send_acquire(self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        match self.flaw {
            Some(Flaw::never_answers) => std::future::pending().await,
            Some(Flaw::panics) => panic!("out of order"),
            _ => {}
        }
        travel().await;
        let answer = match self.flaw {
            Some(
                Flaw::checks_first_and_writes_later | Flaw::takes_expired_locks_over_in_two_steps,
            ) => match self.with(|store, now| store.held(&request, now))? {
                Some(answer) => Ok(answer),
                None => {
                    if self.has(Flaw::checks_first_and_writes_later)
                        || self.with(|store, _| store.has_record(&request.key))
                    {
                        travel().await;
                    }
                    self.with(|store, now| store.grant(&request, now))
                }
            },
            Some(Flaw::misses_a_repeated_request_on_its_way) => {
                // Looks for its own lock first, and takes the key later if nobody has it then.
                match self.with(|store, now| store.held(&request, now))? {
                    Some(answer) => Ok(answer),
                    None => {
                        travel().await;
                        self.with(|store, now| match store.held(&request, now)? {
                            Some(_) => Ok(AcquireResult::Locked),
                            None => store.grant(&request, now),
                        })
                    }
                }
            }
            Some(Flaw::waits_for_the_holder | Flaw::waits_for_the_holder_and_ignores_tokens) => {
                loop {
                    match self.with(|store, now| store.acquire(&request, now))? {
                        AcquireResult::Locked => tokio::time::sleep(Duration::from_millis(5)).await,
                        answer @ AcquireResult::Acquired(_) => break Ok(answer),
                    }
                }
            }
            Some(Flaw::is_overloaded_by_many_at_once) if Arc::strong_count(&self.busy) > 24 => {
                Err(LockError::new(ErrorCode::RateLimited, "too many at once"))
            }
            _ => self.with(|store, now| store.acquire(&request, now)),
        };
        if let Ok(AcquireResult::Acquired(acquired)) = &answer
            && !self.has(Flaw::never_warns)
        {
            acquired.fence.warn_near_limit("reference", &request.key);
        }
        travel().await;
        answer
    }

    /// Runs a release or an extend so that it is finished whatever becomes of its caller.
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

    /// A request without its token, where that is the flaw.
    fn visible_token<R>(
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

    fn with<T>(&self, work: impl FnOnce(&mut Store, u64) -> T) -> T {
        // Some time in 2026.
        let now = 1_780_000_000_000 + u64::try_from(self.started.elapsed().as_millis()).unwrap();
        let now = if self.has(Flaw::counts_in_seconds) { now / 1000 * 1000 } else { now };
        work(&mut self.store.lock().unwrap(), now)
    }

    fn has(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }
}

/// A message on its way: others get their turn, and a caller may disappear.
async fn travel() {
    tokio::task::yield_now().await;
    tokio::task::yield_now().await;
}
