//! The queues under the schedules that shuttle explores.
//!
//! Most tests run with a clock that stands still, so that no poll and no second check hides a lost turn. A
//! waiter that then waits for ever is a deadlock, which shuttle reports.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::{spawn, yield_now};
use shuttle::rand::Rng;

use crate::LockConfig;
use crate::backend::LockBackend;
use crate::client::ClientState;
use crate::contract::capabilities::{BackendCapabilities, TimeAuthority};
use crate::contract::info::LockInfo;
use crate::contract::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use crate::contract::response::{AcquireResult, Acquired};
use crate::contract::response::{Contention, ExtendResult, NotHeld, ReleaseResult};
use crate::rt::{self, model, sleep_until};
use crate::value::{ErrorCode, Fence, LockError, LockId, Timestamp};
use crate::{acquire, try_acquire};

#[test]
fn every_turn_is_passed_on() {
    model::explore_without_time(500, crowd);
}

#[test]
fn turns_come_in_the_order_of_arrival() {
    model::explore_without_time(250, in_order);
}

#[test]
fn failures_and_rivals_stop_no_waiter() {
    model::explore(250, on_a_faulty_store);
}

/// Callers that arrive and leave in all ways.
async fn crowd() {
    let store = Store::new();
    let mut tasks = Vec::new();
    for _ in 0..4 {
        tasks.push(spawn(one_of_many(store.clone())));
    }
    for task in tasks {
        task.await.unwrap();
    }
    store.is_unused().await;
}

async fn one_of_many(store: Store) {
    match random(0..6) {
        // Gives up at some await.
        0 | 1 => {
            let mut waiting = pin!(acquire(&store, "key"));
            for _ in 0..random(1..12) {
                tokio::select! {
                    biased;
                    guard = &mut waiting => return end(guard.unwrap()).await,
                    () = yield_now() => {}
                }
            }
        }
        2 => {
            let outside = LockConfig::new("key").with_ttl(OUTSIDE_THE_QUEUE);
            if let Some(guard) = try_acquire(&store, outside).await.unwrap().acquired() {
                end(guard).await;
            }
        }
        _ => end(acquire(&store, "key").await.unwrap()).await,
    }
}

async fn end(guard: crate::LockGuard<Store>) {
    yield_now().await;
    match random(0..3) {
        0 => drop(guard),
        1 => assert!(guard.release().await.unwrap().is_released()),
        _ => guard.finish().await,
    }
}

/// Callers that arrive one after the other while the lock is held.
async fn in_order() {
    let store = Store::new();
    let held = acquire(&store, "key").await.unwrap();
    let served = Arc::new(AtomicUsize::new(0));
    let mut tasks = Vec::new();
    for place in 0..3 {
        let waiting = Box::pin({
            let (store, served) = (store.clone(), Arc::clone(&served));
            async move {
                let guard = acquire(&store, "key").await.unwrap();
                assert_eq!(served.fetch_add(1, Ordering::Relaxed), place, "overtaken");
                end(guard).await;
            }
        });
        tasks.push(spawn(arrived(waiting).await));
    }
    end(held).await;
    for task in tasks {
        task.await.unwrap();
    }
    store.is_unused().await;
}

/// A future that has been polled once.
async fn arrived<F: Future<Output = ()> + Unpin>(mut future: F) -> F {
    tokio::select! {
        biased;
        () = &mut future => unreachable!("the lock is held"),
        () = std::future::ready(()) => future,
    }
}

/// A store that fails now and then, and in which rivals take the lock.
async fn on_a_faulty_store() {
    let store = Store::new();
    store.state().is_faulty = true;
    let mut tasks = Vec::new();
    for _ in 0..3 {
        let store = store.clone();
        tasks.push(spawn(async move {
            let config = LockConfig::new("key").with_ttl(Duration::from_millis(700));
            match acquire(&store, config).await {
                Ok(guard) => {
                    yield_now().await;
                    drop(guard.release().await);
                }
                Err(error) => assert_ne!(error.code(), ErrorCode::Internal, "{error}"),
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    store.is_unused().await;
}

fn random(range: std::ops::Range<u32>) -> u32 {
    shuttle::rand::thread_rng().gen_range(range)
}

/// A store of one lock.
#[derive(Clone)]
struct Store(Arc<Mutex<State>>, ClientState);

#[derive(Default)]
struct State {
    holder: Option<LockId>,
    fences: u64,
    /// The number of waiters of the queue that ask at this moment.
    contenders: u32,
    is_faulty: bool,
}

/// The TTL that marks requests of callers outside the queue.
const OUTSIDE_THE_QUEUE: Duration = Duration::from_secs(7);

impl Store {
    fn new() -> Self {
        Self(Arc::default(), ClientState::default())
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.0.lock().unwrap()
    }

    /// The delay of a request, which may fail.
    async fn travel(&self) -> Result<(), LockError> {
        for _ in 0..random(0..3) {
            yield_now().await;
        }
        if !self.state().is_faulty {
            return Ok(());
        }
        match random(0..8) {
            0 => Err(LockError::new(ErrorCode::ServiceUnavailable, "try again")),
            1 => {
                sleep_until(rt::after(Duration::from_secs(u64::from(random(0..20))))).await;
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Checks that no caller waits and no key is left in the registry.
    async fn is_unused(&self) {
        while self.1.clean_up().waiting() > 0 {
            yield_now().await;
        }
        for _ in 0..20 {
            yield_now().await;
        }
        assert_eq!(self.1.keys_in_use(), 0, "a queue is left behind");
    }
}

/// Counts a waiter of the queue that asks the store.
struct Contending(Store);

impl Contending {
    fn begin(store: &Store) -> Self {
        let mut state = store.state();
        state.contenders += 1;
        let is_alone = state.contenders == 1 || state.is_faulty;
        drop(state);
        let this = Self(store.clone());
        assert!(is_alone, "two contend for one key");
        this
    }
}

impl Drop for Contending {
    fn drop(&mut self) {
        self.0.state().contenders -= 1;
    }
}

impl LockBackend for Store {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        let is_queued = request.ttl.as_duration() != OUTSIDE_THE_QUEUE;
        let _contending = is_queued.then(|| Contending::begin(self));
        self.travel().await?;
        let stolen = self.state().is_faulty && random(0..4) == 0;
        let mut state = self.state();
        if stolen || state.holder.is_some() {
            return Ok(AcquireResult::Busy(Contention::free_within(Duration::from_millis(300))));
        }
        state.holder = Some(request.lock_id);
        state.fences += 1;
        let fence = Fence::new(state.fences).unwrap();
        Ok(AcquireResult::Acquired(Acquired::new(
            request.lock_id,
            Timestamp::from_millis(0).unwrap(),
            fence,
        )))
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.travel().await?;
        let mut state = self.state();
        if state.holder != Some(request.lock_id) {
            return Ok(ReleaseResult::NotHeld(NotHeld::NotFound));
        }
        state.holder = None;
        Ok(ReleaseResult::Released)
    }

    async fn extend(&self, _: ExtendRequest) -> Result<ExtendResult, LockError> {
        Ok(ExtendResult::NotHeld(NotHeld::NotFound))
    }

    async fn is_locked(&self, _: IsLockedRequest) -> Result<bool, LockError> {
        Ok(self.state().holder.is_some())
    }

    async fn lookup(&self, _: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        Ok(None)
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("queue", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.1
    }
}
