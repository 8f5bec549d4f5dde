//! A new store behind the trait of `syncguard-core`, checked by the conformance suite.
//!
//! `cargo run -p syncguard-conformance --example custom_store`

#![allow(
    clippy::print_stdout,
    clippy::unwrap_used,
    clippy::wildcard_imports,
    reason = "an example"
)]
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use syncguard_conformance::{Harness, Suite};
use syncguard_core::authoring::cancel;
use syncguard_core::contract::*;
use syncguard_core::shared::ClientState;
use syncguard_core::{
    CancellationToken, Contention, ExtendResult, Fence, Key, LockBackend, LockError, LockInfo,
    NotHeld, ReleaseResult, Timestamp, Ttl,
};

/// The fence counters, which are never removed, and the locks.
type Store = (HashMap<Key, Fence>, Vec<LockInfo>);

#[derive(Clone, Default)]
struct Shelf(Arc<Mutex<Store>>, ClientState);

impl Shelf {
    /// Removes the locks that are over, and returns the store and the time.
    fn live(
        &self,
        token: Option<&CancellationToken>,
    ) -> Result<(MutexGuard<'_, Store>, Timestamp), LockError> {
        cancel::check(token)?;
        let now = Timestamp::from_system_time(std::time::SystemTime::now())?;
        let mut shelf = self.0.lock().unwrap();
        shelf.1.retain(|lock| is_live(lock.expires_at, now));
        Ok((shelf, now))
    }
}

impl LockBackend for Shelf {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let (mut shelf, now) = self.live(request.cancellation.as_ref())?;
        let held = shelf.1.iter().find(|lock| lock.key == request.key);
        if let Some(lock) = held.filter(|lock| lock.lock_id != request.lock_id) {
            return Ok(AcquireResult::Busy(Contention::until(lock.expires_at, now)));
        }
        let info = match held {
            Some(same) => same.clone(),
            None => {
                let fence = shelf.0.get(&request.key).copied().unwrap_or(Fence::ZERO).next()?;
                let expires_at = now.plus(request.ttl)?;
                fence.warn_near_limit("shelf", &request.key);
                shelf.0.insert(request.key.clone(), fence);
                let info = LockInfo::new(request.key, request.lock_id, now, expires_at, fence);
                shelf.1.push(info.clone());
                info
            }
        };
        Ok(AcquireResult::Acquired(Acquired::new(request.lock_id, info.expires_at, info.fence)))
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        let (mut shelf, _) = self.live(request.cancellation.as_ref())?;
        let released = shelf.1.extract_if(.., |lock| lock.lock_id == request.lock_id).next();
        Ok(released.map_or(ReleaseResult::NotHeld(NotHeld::NotFound), |_| ReleaseResult::Released))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        let (mut shelf, now) = self.live(request.cancellation.as_ref())?;
        let mut expires_at = now.plus(request.ttl)?;
        let held = shelf.1.iter_mut().find(|lock| lock.lock_id == request.lock_id);
        let Some(lock) = held else { return Ok(ExtendResult::NotHeld(NotHeld::NotFound)) };
        let stored = lock.expires_at;
        if request.expected_expiry.is_some_and(|expected| expected != stored) {
            return Ok(ExtendResult::Mismatch { expires_at: stored });
        }
        if expires_at == stored {
            // Every extend changes the expiry.
            expires_at = expires_at.plus(Ttl::MIN)?;
        }
        lock.expires_at = expires_at;
        Ok(ExtendResult::Extended { expires_at })
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let (shelf, _) = self.live(request.cancellation.as_ref())?;
        Ok(shelf.1.iter().any(|lock| lock.key == request.key))
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        let (shelf, _) = self.live(request.cancellation.as_ref())?;
        let found = shelf.1.iter().find(|lock| match &request.by {
            LookupBy::Key(key) => lock.key == *key,
            LookupBy::LockId(lock_id) => lock.lock_id == *lock_id,
        });
        Ok(found.cloned())
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("shelf", TimeAuthority::Client)
    }

    fn client_state(&self) -> &ClientState {
        &self.1
    }
}

impl Harness for Shelf {
    type Backend = Self;

    async fn connect(&self) -> Self {
        self.clone()
    }

    async fn set_fence_counter(&self, key: &Key, last: Fence) {
        self.0.lock().unwrap().0.insert(key.clone(), last);
    }
}

#[tokio::main]
async fn main() {
    let report = Suite::new().run(Shelf::default()).await;
    println!("{report}");
    assert!(report.is_success());
}
