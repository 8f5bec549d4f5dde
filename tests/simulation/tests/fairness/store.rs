//! A store with signals, and the connections to it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_core::Jitter;
use syncguard_core::authoring::cancel;
use syncguard_core::authoring::signals::LockSeen;
use syncguard_core::contract::{
    AcquireRequest, AcquireResult, Acquired, BackendCapabilities, ExtendRequest, IsLockedRequest,
    KeySignal, KeyWatch, LookupRequest, ReleaseRequest, TimeAuthority, WatchRequest,
};
use syncguard_core::shared::ClientState;
use syncguard_core::{
    Contention, ExtendResult, Fence, LockBackend, LockError, LockId, LockInfo, NotHeld,
    ReleaseResult, Timestamp,
};
use tokio::time::sleep;

/// The store. Locks do not expire, because no holder of these tests crashes.
#[derive(Clone, Default)]
pub(crate) struct Store(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    locks: HashMap<String, Lock>,
    watchers: Vec<Watcher>,
    fences: u64,
    commands: u32,
}

struct Lock {
    id: LockId,
    /// True if the holder is a client that only polls.
    polls: bool,
}

struct Watcher {
    key: String,
    signal: KeySignal,
    latency: Duration,
    goes_on: bool,
}

/// How clients learn of releases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signals {
    /// A watch gives signals until it is dropped, as on Redis.
    Lasting,
    /// A watch gives one signal, as on Firestore.
    Once,
    None,
}

impl Store {
    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().expect("no test panics with the store in its hands")
    }

    pub(crate) fn commands(&self) -> u32 {
        self.state().commands
    }

    /// Takes the lock if it is free.
    pub(crate) fn take(&self, key: &str, id: LockId, polls: bool) -> Result<Fence, bool> {
        let mut state = self.state();
        state.commands += 1;
        if let Some(lock) = state.locks.get(key).filter(|lock| lock.id != id) {
            return Err(lock.polls);
        }
        state.locks.insert(key.to_owned(), Lock { id, polls });
        state.fences += 1;
        Ok(Fence::new(state.fences).expect("few are given out"))
    }

    pub(crate) fn give_back(&self, id: LockId, tells: bool) -> bool {
        let mut state = self.state();
        state.commands += 1;
        let key = state.locks.iter().find(|(_, lock)| lock.id == id).map(|(key, _)| key.clone());
        let Some(key) = key else { return false };
        state.locks.remove(&key);
        let heard = state.watchers.extract_if(.., |watcher| tells && watcher.key == key);
        for watcher in heard.filter(|watcher| !watcher.signal.is_unheard()) {
            let store = self.clone();
            tokio::spawn(async move {
                travel(watcher.latency).await;
                watcher.signal.signal();
                if watcher.goes_on {
                    store.state().watchers.push(watcher);
                }
            });
        }
        true
    }
}

/// The clock has steps of a millisecond. The rest of a step passes at random, so that no connection always takes the
/// same time.
async fn travel(latency: Duration) {
    let latency = latency + Jitter::Full.of(Duration::from_millis(1));
    match u64::try_from(latency.as_millis()) {
        Ok(0) | Err(_) => tokio::task::yield_now().await,
        Ok(millis) => sleep(Duration::from_millis(millis)).await,
    }
}

/// The connection of one process to the store.
#[derive(Clone)]
pub(crate) struct Process {
    store: Store,
    /// The delay in one direction.
    latency: Duration,
    signals: Signals,
    client: ClientState,
}

impl Process {
    pub(crate) fn new(store: &Store, latency: Duration, signals: Signals) -> Self {
        Self { store: store.clone(), latency, signals, client: ClientState::default() }
    }

    /// The same if no other process can reach the store.
    pub(crate) fn of_single_process(self) -> Self {
        Self { client: self.client.with_queues_of_single_process(), ..self }
    }
}

impl LockBackend for Process {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let (store, latency) = (self.store.clone(), self.latency);
        cancel::finish_acquire(self, request, async move |request, _| {
            travel(latency).await;
            let taken = store.take(request.key.expose(), request.lock_id, false);
            travel(latency).await;
            Ok(match taken {
                Ok(fence) => {
                    let expires_at = Timestamp::from_millis(0)?;
                    AcquireResult::Acquired(Acquired::new(request.lock_id, expires_at, fence))
                }
                Err(polls) => AcquireResult::Busy(
                    Contention::free_within(Duration::from_secs(30)).with_polled(polls),
                ),
            })
        })
        .await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        travel(self.latency).await;
        let is_held = self.store.give_back(request.lock_id, true);
        travel(self.latency).await;
        let not_held = ReleaseResult::NotHeld(NotHeld::NotFound);
        Ok(if is_held { ReleaseResult::Released } else { not_held })
    }

    async fn extend(&self, _: ExtendRequest) -> Result<ExtendResult, LockError> {
        Ok(ExtendResult::NotHeld(NotHeld::NotFound))
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        travel(self.latency).await;
        let is_locked = {
            let mut state = self.store.state();
            state.commands += 1;
            state.locks.contains_key(request.key.expose())
        };
        travel(self.latency).await;
        Ok(is_locked)
    }

    async fn lookup(&self, _: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        Ok(None)
    }

    async fn watch(&self, request: WatchRequest) -> Option<KeyWatch> {
        if self.signals == Signals::None {
            return None;
        }
        travel(self.latency).await;
        let (signal, watch) = KeyWatch::new();
        let watch = {
            let mut state = self.store.state();
            state.commands += 1;
            let key = request.key.expose().to_owned();
            let goes_on = self.signals == Signals::Lasting;
            let held = state.locks.get(&key).map(|lock| lock.polls);
            state.watchers.retain(|watcher| !watcher.signal.is_unheard());
            state.watchers.push(Watcher { key, signal, latency: self.latency, goes_on });
            LockSeen::of(held).add_to(watch)
        };
        travel(self.latency).await;
        Some(watch)
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("double", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.client
    }
}
