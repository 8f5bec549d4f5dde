//! The smallest store that keeps the contract: a map, on tokio's clock.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use syncguard_core::authoring::cancel;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, BackendCapabilities, ExtendRequest, IsLockedRequest,
    KeySignal, KeyWatch, LookupBy, LookupRequest, ReleaseRequest, TimeAuthority, WatchRequest,
    is_live,
};
use syncguard_core::shared::ClientState;
use syncguard_core::{
    Contention, ExtendResult, Fence, Key, LockBackend, LockError, LockId, LockInfo, NotHeld,
    ReleaseResult, Timestamp, Ttl,
};
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct SmallStore {
    began: Instant,
    slots: Arc<Mutex<HashMap<Key, Slot>>>,
    state: ClientState,
}

struct Slot {
    fence: Fence,
    lock: Option<LockInfo>,
    watches: Vec<KeySignal>,
}

impl SmallStore {
    pub(crate) fn new() -> Self {
        let state = ClientState::default().with_queues_of_single_process();
        Self { began: Instant::now(), slots: Arc::default(), state }
    }

    /// The number of locks that were not given back.
    pub(crate) fn stored_locks(&self) -> usize {
        self.slots.lock().unwrap().values().filter(|slot| slot.lock.is_some()).count()
    }

    /// The live lock with this id, to change it.
    fn with_lock<T>(&self, id: LockId, change: impl FnOnce(&mut Slot) -> T) -> Result<T, NotHeld> {
        let (now, mut slots) = (self.now(), self.slots.lock().unwrap());
        let has_id = |slot: &&mut Slot| slot.lock.clone().is_some_and(|lock| lock.lock_id == id);
        let slot = slots.values_mut().find(has_id).ok_or(NotHeld::NotFound)?;
        if slot.live(now).is_none() {
            return Err(NotHeld::Expired);
        }
        Ok(change(slot))
    }

    pub(crate) fn now(&self) -> Timestamp {
        let millis = u64::try_from(self.began.elapsed().as_millis()).unwrap();
        Timestamp::from_millis(1_800_000_000_000 + millis).unwrap()
    }

    fn after(&self, ttl: Ttl) -> Timestamp {
        Timestamp::from_millis(self.now().as_millis() + ttl.as_millis()).unwrap()
    }
}

impl Slot {
    fn live(&self, now: Timestamp) -> Option<&LockInfo> {
        self.lock.as_ref().filter(|lock| is_live(lock.expires_at, now))
    }
}

impl LockBackend for SmallStore {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        let (now, expires_at) = (self.now(), self.after(request.ttl));
        let mut slots = self.slots.lock().unwrap();
        let empty = || Slot { fence: Fence::ZERO, lock: None, watches: Vec::new() };
        let slot = slots.entry(request.key.clone()).or_insert_with(empty);
        if let Some(held) = slot.live(now) {
            return Ok(AcquireResult::Busy(Contention::until(held.expires_at, now)));
        }
        slot.fence = slot.fence.next()?;
        let lock = LockInfo::new(request.key, request.lock_id, now, expires_at, slot.fence);
        slot.lock = Some(lock.with_holder(request.holder));
        Ok(AcquireResult::Acquired(Acquired::new(request.lock_id, expires_at, slot.fence)))
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        let released = self.with_lock(request.lock_id, |slot| {
            slot.lock = None;
            // A watch hears it when its signal is dropped.
            slot.watches.clear();
        });
        Ok(released.map_or_else(ReleaseResult::NotHeld, |()| ReleaseResult::Released))
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        let mut new = self.after(request.ttl);
        let extended = self.with_lock(request.lock_id, |slot| {
            let lock = slot.lock.as_mut().unwrap();
            if request.expected_expiry.is_some_and(|expected| expected != lock.expires_at) {
                return ExtendResult::Mismatch { expires_at: lock.expires_at };
            }
            if new == lock.expires_at {
                new = Timestamp::from_millis(new.as_millis() + 1).unwrap();
            }
            lock.expires_at = new;
            ExtendResult::Extended { expires_at: new }
        });
        Ok(extended.unwrap_or_else(ExtendResult::NotHeld))
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        let lookup = LookupRequest::by_key(&request.key)?;
        Ok(self.lookup(lookup).await?.is_some())
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        cancel::check(request.cancellation.as_ref())?;
        let key = match request.by {
            LookupBy::Key(key) => key,
            LookupBy::LockId(id) => {
                return Ok(self.with_lock(id, |slot| slot.lock.clone()).ok().flatten());
            }
        };
        let (now, slots) = (self.now(), self.slots.lock().unwrap());
        Ok(slots.get(&key).and_then(|slot| slot.live(now)).cloned())
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        let (now, mut slots) = (self.now(), self.slots.lock().unwrap());
        let (signal, watch) = KeyWatch::new();
        let Some(slot) = slots.get_mut(&request.key).filter(|slot| slot.live(now).is_some()) else {
            return Some(watch);
        };
        slot.watches.retain(|signal| !signal.is_unheard());
        slot.watches.push(signal);
        Some(watch.with_locked())
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("small", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.state
    }
}
