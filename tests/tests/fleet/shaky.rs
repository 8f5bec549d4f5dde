//! The memory backend behind a network that loses replies and delays requests, with a flaw on request.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use syncguard::authoring::cancel::{self, Settle, Settled, Unsettled};
use syncguard::contract::{
    AcquireRequest, AcquireResult, Acquired, ExtendRequest, IsLockedRequest, KeyWatch,
    LookupRequest, ReleaseRequest, WatchRequest,
};
use syncguard::memory::MemoryBackend;
use syncguard::{
    ErrorCode, ExtendResult, Fence, LockBackend, LockError, LockId, LockInfo, ReleaseResult,
    Timestamp, Ttl, forward,
};
use syncguard_history::Random;
use syncguard_history::{Entry, Fault, Recorder};
use tokio::time::Instant;

/// The flaws of a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flaw {
    /// Sometimes it grants a lock that another caller holds.
    SecondHolder,
    /// The store grants a lock as soon as the last one has expired.
    NoTolerance,
    /// Sometimes it grants a fence for the second time.
    RepeatedFence,
    /// The store releases a lock any number of times.
    EndlessRelease,
    /// The store revives locks that have expired or were released.
    Undead,
    /// Sometimes it confirms a release that it has not carried out.
    Orphans,
    /// The store is slow to serve again.
    SlowRecovery,
    /// Each release leaves a task behind.
    LeakedTasks,
    /// A lock lives for a minute longer than it should.
    LongLife,
    /// The store carries out requests after their deadline.
    LateRequests,
    /// The store extends a lock with any expected expiry.
    BlindExtends,
}

/// The latest time after its sending at which a request is carried out.
pub(crate) const BOUND: Duration = Duration::from_millis(300);

/// How many of a hundred requests are delayed.
const LATE: u64 = 3;

/// The longest delay of a request.
pub(crate) const LATEST: Duration = Duration::from_secs(8);

#[derive(Clone)]
pub(crate) struct Shaky {
    inner: MemoryBackend,
    flaw: Option<Flaw>,
    recorder: Recorder,
    state: Arc<Mutex<State>>,
    /// The start of the time, as in the memory backend.
    epoch: (Instant, SystemTime),
}

struct State {
    random: Random,
    down_until: Option<Instant>,
    /// Lock ids that were released.
    released: HashSet<LockId>,
}

impl Shaky {
    pub(crate) fn new(flaw: Option<Flaw>, recorder: Recorder, random: Random) -> Self {
        let state = State { random, down_until: None, released: HashSet::new() };
        Self {
            inner: MemoryBackend::new(),
            flaw,
            recorder,
            state: Arc::new(Mutex::new(state)),
            epoch: (Instant::now(), SystemTime::now()),
        }
    }

    /// The length of an outage; longer with that flaw.
    pub(crate) fn take_down(&self, lasts: Duration) {
        let longer = if self.flaw == Some(Flaw::SlowRecovery) {
            Duration::from_secs(3)
        } else {
            Duration::ZERO
        };
        self.state().down_until = Some(Instant::now() + lasts + longer);
    }

    /// The store itself, without a network.
    pub(crate) fn store(&self) -> &MemoryBackend {
        &self.inner
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn percent(&self, chance: u64) -> bool {
        self.state().random.percent(chance)
    }

    fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    fn now(&self) -> Result<Timestamp, LockError> {
        Timestamp::from_system_time(self.epoch.1 + self.epoch.0.elapsed())
    }

    fn in_a(&self, ttl: Ttl) -> Result<Timestamp, LockError> {
        self.now()?.plus(ttl)
    }

    /// A request and its answer. Sometimes the request is delayed: its sender is told of a failure and goes on, and
    /// the request arrives later, maybe after its deadline.
    async fn send<T: Send + 'static>(
        self,
        deadline: Timestamp,
        chance: u64,
        request: impl Future<Output = Result<T, LockError>> + Send + 'static,
    ) -> Result<T, LockError> {
        self.there().await?;
        if !self.percent(chance) {
            let result = request.await;
            return self.back(result).await;
        }
        self.recorder.note(Entry::Fault(Fault::Late));
        let within = if self.percent(50) { BOUND } else { LATEST };
        let late = self.state().random.millis(20, u64::try_from(within.as_millis()).unwrap());
        tokio::spawn(async move {
            tokio::time::sleep(late).await;
            let is_refused = self.now().is_ok_and(|now| now > deadline);
            if !is_refused || self.is(Flaw::LateRequests) {
                let _ = request.await;
            }
        });
        Err(unavailable().with_unknown_outcome())
    }

    fn deadline(&self) -> Result<Timestamp, LockError> {
        self.in_a(Ttl::new(BOUND)?)
    }

    /// The network to the store.
    async fn there(&self) -> Result<(), LockError> {
        let (pause, down) = {
            let mut state = self.state();
            (state.random.below(3000), state.down_until)
        };
        tokio::time::sleep(Duration::from_micros(pause)).await;
        match down {
            Some(until) if Instant::now() < until => Err(unavailable()),
            _ => Ok(()),
        }
    }

    /// The network back, which may lose a reply.
    async fn back<T>(&self, result: Result<T, LockError>) -> Result<T, LockError> {
        let pause = self.state().random.below(3000);
        tokio::time::sleep(Duration::from_micros(pause)).await;
        if self.percent(2) {
            self.recorder.note(Entry::Fault(Fault::Cut));
            return Err(unavailable().with_unknown_outcome());
        }
        result
    }

    async fn grant(&self, mut request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let ttl = request.ttl;
        if self.is(Flaw::LongLife) && self.percent(50) {
            request.ttl = Ttl::new(ttl.as_duration() + Duration::from_secs(60))?;
        }
        let result = self.inner.acquire(request.repeat()).await?;
        match (self.flaw, result) {
            (Some(Flaw::RepeatedFence), AcquireResult::Acquired(mut lock)) if self.percent(10) => {
                lock.fence = Fence::new(lock.fence.get().saturating_sub(1))?;
                Ok(AcquireResult::Acquired(lock))
            }
            (Some(Flaw::SecondHolder), AcquireResult::Locked(_)) if self.percent(10) => {
                let fence = Fence::new(1_000_000 + self.state().random.below(1_000_000))?;
                let lock = Acquired::new(request.lock_id, self.in_a(ttl)?, fence);
                Ok(AcquireResult::Acquired(lock))
            }
            (Some(Flaw::NoTolerance), AcquireResult::Locked(_)) => {
                let found = self.inner.lookup(LookupRequest::by_key(&request.key)?).await?;
                match found.map(LockInfo::expose) {
                    Some(old) if old.info.expires_at <= self.in_a(Ttl::MIN)? => {
                        let _ = self.inner.release(ReleaseRequest::new(old.lock_id)).await?;
                        self.inner.acquire(request).await
                    }
                    _ => Ok(result),
                }
            }
            _ => Ok(result),
        }
    }

    async fn free(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let lock_id = request.lock_id;
        if self.is(Flaw::LeakedTasks) && self.percent(2) {
            tokio::spawn(std::future::pending::<()>());
        }
        if self.is(Flaw::Orphans) && self.percent(10) {
            return Ok(ReleaseResult::Released);
        }
        let result = self.inner.release(request).await?;
        let known = if result.is_released() {
            !self.state().released.insert(lock_id)
        } else {
            self.state().released.contains(&lock_id)
        };
        Ok(if known && self.is(Flaw::EndlessRelease) { ReleaseResult::Released } else { result })
    }

    async fn prolong(&self, mut request: ExtendRequest) -> Result<ExtendResult, LockError> {
        if self.is(Flaw::BlindExtends) {
            request.expected_expiry = None;
        }
        let result = self.inner.extend(request.clone()).await?;
        if self.is(Flaw::Undead) && !result.is_extended() {
            return Ok(ExtendResult::Extended { expires_at: self.in_a(request.ttl)? });
        }
        Ok(result)
    }
}

fn unavailable() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "the way is broken")
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Shaky {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let shaky = self.clone();
        cancel::finish_acquire_settled(self, request, async move |asked, caller| {
            let deadline = shaky.deadline()?;
            caller.sends(deadline, BOUND);
            let store = shaky.clone();
            shaky.send(deadline, LATE, async move { store.grant(asked).await }).await
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let (shaky, cancellation) = (self.clone(), request.cancellation.clone());
        cancel::finish(cancellation.as_ref(), async move {
            let (deadline, store) = (shaky.deadline()?, shaky.clone());
            shaky.send(deadline, LATE, async move { store.free(request).await }).await
        })
        .await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let (shaky, cancellation) = (self.clone(), request.cancellation.clone());
        cancel::finish(cancellation.as_ref(), async move {
            let (deadline, store) = (shaky.deadline()?, shaky.clone());
            // That flaw shows only if the first of two extends is late.
            let chance = if shaky.is(Flaw::BlindExtends) { 40 } else { LATE };
            shaky.send(deadline, chance, async move { store.prolong(request).await }).await
        })
        .await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.there().await?;
        let result = self.inner.is_locked(request).await;
        self.back(result).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.there().await?;
        let result = self.inner.lookup(request).await;
        self.back(result).await
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        self.there().await.ok()?;
        self.inner.watch(request).await
    }

    forward!(inner: inventory, capabilities, client_state);
}

impl Settle for Shaky {
    async fn settle(&self, acquire: &Unsettled) -> Result<Settled, LockError> {
        self.there().await?;
        let result = self.free(acquire.release()).await;
        let now = self.now()?;
        let _ = self.back(result).await?;
        Ok(match acquire.deadline {
            Some(deadline) if now <= deadline => Settled::NotYet(BOUND / 4),
            _ => Settled::Done,
        })
    }
}
