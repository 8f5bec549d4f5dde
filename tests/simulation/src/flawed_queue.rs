//! A flawed copy of the library's queue, in front of a backend. Without a flaw it is not used.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use syncguard_core::contract::{AcquireRequest, AcquireResult, Acquired, ReleaseRequest};
use syncguard_core::{
    Fence, Key, LockBackend, LockError, LockId, ReleaseResult, Timestamp, forward,
};
use tokio::sync::Notify;

use crate::flaw::Flaw;

/// Lets one caller of a process contend for a key, while the others wait.
#[derive(Clone)]
pub(crate) struct FlawedQueue<B> {
    inner: B,
    flaw: Option<Flaw>,
    keys: Arc<Mutex<HashMap<Key, Arc<Turn>>>>,
    /// The last grant, for the next caller.
    granted: Arc<Mutex<HashMap<LockId, (Key, Granted)>>>,
    handed: Arc<Mutex<HashMap<Key, Granted>>>,
}

type Granted = (Timestamp, Fence);

#[derive(Default)]
struct Turn {
    is_taken: Mutex<bool>,
    passed: Notify,
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<B> FlawedQueue<B> {
    pub(crate) fn new(inner: B, flaw: Option<Flaw>) -> Self {
        let (keys, granted, handed) = (Arc::default(), Arc::default(), Arc::default());
        Self { inner, flaw, keys, granted, handed }
    }

    /// Waits for the turn at the key. A caller that goes away during its turn keeps the turn, which is the flaw.
    async fn turn(&self, key: &Key) -> Arc<Turn> {
        let turn = Arc::clone(locked(&self.keys).entry(key.clone()).or_default());
        loop {
            let passed = turn.passed.notified();
            if !std::mem::replace(&mut *locked(&turn.is_taken), true) {
                break;
            }
            passed.await;
        }
        turn
    }
}

#[deny(clippy::missing_trait_methods)]
impl<B: LockBackend<Fence = Fence>> LockBackend for FlawedQueue<B> {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        match self.flaw {
            Some(Flaw::KeptTurn) => {
                let turn = self.turn(&request.key).await;
                let result = self.inner.acquire(request).await;
                *locked(&turn.is_taken) = false;
                turn.passed.notify_one();
                result
            }
            Some(Flaw::SharedGrant) => {
                if let Some((expires_at, fence)) = locked(&self.handed).remove(&request.key) {
                    let lock = Acquired::new(request.lock_id, expires_at, fence);
                    return Ok(AcquireResult::Acquired(lock));
                }
                let (key, id) = (request.key.clone(), request.lock_id);
                let result = self.inner.acquire(request).await;
                if let Ok(AcquireResult::Acquired(lock)) = &result {
                    locked(&self.granted).insert(id, (key, (lock.expires_at, lock.fence)));
                }
                result
            }
            _ => self.inner.acquire(request).await,
        }
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        if self.flaw == Some(Flaw::SharedGrant) {
            let granted = locked(&self.granted).remove(&request.lock_id);
            if let Some((key, granted)) = granted {
                locked(&self.handed).insert(key, granted);
            }
        }
        self.inner.release(request).await
    }

    forward!(inner: extend, is_locked, lookup, watch, health, inventory, capabilities, client_state);
}
