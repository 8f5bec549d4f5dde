//! Backends that are broken on purpose, for a process of a fleet. A run must find the flaw.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use syncguard::contract::{AcquireRequest, AcquireResult, Acquired, ExtendRequest, ReleaseRequest};
use syncguard::{
    DynBackend, ExtendResult, Fence, LockBackend, LockError, LockId, ReleaseResult, Timestamp, Ttl,
    forward,
};
use syncguard_history::Random;

/// The flaw.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Flaw {
    /// A held key is granted once more.
    SecondHolder,
    /// A fence is granted twice.
    RepeatedFence,
    /// A lock that was released is released again.
    EndlessRelease,
    /// A lock that is over is extended.
    Undead,
    /// A release is confirmed and never sent.
    Orphans,
}

/// A backend with a flaw that shows in a tenth of its operations.
#[derive(Clone, Debug)]
pub struct Flawed {
    inner: DynBackend,
    flaw: Flaw,
    state: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    random: Random,
    released: HashSet<LockId>,
}

impl Flawed {
    /// Breaks a backend.
    #[must_use]
    pub fn new(inner: DynBackend, flaw: Flaw, random: Random) -> Self {
        let state = State { random, released: HashSet::new() };
        Self { inner, flaw, state: Arc::new(Mutex::new(state)) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shows(&self, flaw: Flaw) -> bool {
        self.flaw == flaw && self.state().random.percent(10)
    }
}

fn from_now(ttl: Ttl) -> Result<Timestamp, LockError> {
    Timestamp::from_system_time(SystemTime::now() + ttl.as_duration())
}

#[deny(clippy::missing_trait_methods)]
impl LockBackend for Flawed {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let (lock_id, ttl) = (request.lock_id, request.ttl);
        match self.inner.acquire(request).await? {
            AcquireResult::Acquired(mut lock) if self.shows(Flaw::RepeatedFence) => {
                lock.fence = Fence::new(lock.fence.get().saturating_sub(1))?;
                Ok(AcquireResult::Acquired(lock))
            }
            AcquireResult::Locked(_) if self.shows(Flaw::SecondHolder) => {
                let fence = Fence::new(1_000_000 + self.state().random.below(1_000_000))?;
                Ok(AcquireResult::Acquired(Acquired::new(lock_id, from_now(ttl)?, fence)))
            }
            result => Ok(result),
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        if self.shows(Flaw::Orphans) {
            return Ok(ReleaseResult::Released);
        }
        let lock_id = request.lock_id;
        let result = self.inner.release(request).await?;
        if result.is_released() {
            self.state().released.insert(lock_id);
        } else if self.flaw == Flaw::EndlessRelease && self.state().released.contains(&lock_id) {
            return Ok(ReleaseResult::Released);
        }
        Ok(result)
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let ttl = request.ttl;
        let result = self.inner.extend(request).await?;
        if !result.is_extended() && self.shows(Flaw::Undead) {
            return Ok(ExtendResult::Extended { expires_at: from_now(ttl)? });
        }
        Ok(result)
    }

    forward!(inner: is_locked, lookup, watch, inventory, capabilities, client_state);
}
