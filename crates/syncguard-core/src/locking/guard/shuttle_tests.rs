//! The guard and its renewer under the schedules that shuttle explores.
//!
//! The store below is hostile: it answers late, not at all, with errors, or that the lock is gone, and it
//! carries out requests in any order, even long after their sender has moved on. In every execution: no
//! release is sent after one was answered, no renewal is sent after the first release, the holder never
//! relies on a lock that the store has given up, every loss is noticed, and the observer hears of the end
//! exactly once.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::future::{spawn, yield_now};
use shuttle::rand::Rng;
use tokio::sync::oneshot;

use super::validity::Validity;
use super::{Lease, LockGuard};
use crate::backend::LockBackend;
use crate::client::ClientState;
use crate::contract::capabilities::{BackendCapabilities, TimeAuthority};
use crate::contract::info::LockInfo;
use crate::contract::loss_reason::LossReason;
use crate::contract::request::{
    AcquireRequest, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use crate::contract::response::{AcquireResult, Acquired};
use crate::contract::response::{Contention, ExtendResult, NotHeld, ReleaseResult};
use crate::locking::config::{AutoExtend, Policy};
use crate::observe::{LockObserver, Observation};
use crate::rt::model::{self, Instant, Spawner, sleep_until};
use crate::value::{ErrorCode, Fence, Key, LockError, LockId, Timestamp, Ttl};

const TTL: Duration = Duration::from_millis(900);

#[test]
fn auto_extended_guard_with_late_requests_under_random_schedules() {
    model::explore(750, auto_extended);
}

#[test]
fn auto_extended_guard_with_late_requests_under_priority_schedules() {
    model::explore_priorities(375, auto_extended);
}

#[test]
fn plain_guard_with_late_requests_under_random_schedules() {
    model::explore(500, plain);
}

#[test]
fn a_capped_hold_ends_at_the_cap() {
    model::explore(250, capped);
}

#[test]
fn late_extends_do_not_overwrite_newer_ones() {
    model::explore(500, || overtaken(Store::new()));
}

/// The planted flaw: a store that ignores the expected expiry, so that an older extend overwrites a newer
/// one.
#[test]
#[should_panic(expected = "relies on a lock for longer than the store keeps it")]
fn late_extends_that_overwrite_newer_ones_are_found() {
    model::explore(20_000, || {
        let store = Store::new();
        store.0.lock().unwrap().overwrites = true;
        overtaken(store)
    });
}

/// A renewal is cut to the cap before it is sent. If time passes in between, its TTL reaches beyond the cap.
#[test]
fn a_renewal_beyond_the_cap_counts_until_the_cap() {
    model::explore(1, || async {
        let (cap, expires_at) = (Instant::now() + TTL, Timestamp::from_millis(0).unwrap());
        let validity = Validity::new(cap, expires_at, Some(cap), None);
        validity.renewed(cap + TTL, expires_at).unwrap();
        assert_eq!(validity.until(), Ok(cap));
    });
}

/// The renewer renews while a holder extends, then releases or drops in one of several ways.
async fn auto_extended() {
    let store = Store::new();
    let mut guard = store.guard(Some(AutoExtend::new()));
    let watcher = spawn(store.clone().watch(guard.held()));
    for _ in 0..random(0..4) {
        yield_now().await;
        if random(0..4) == 0 {
            // The watcher checks how long the guard relies on the lock after the answer.
            let _ = guard.extend(TTL * random(1..3)).await;
        }
    }
    if random(0..4) == 0 {
        // Held until the lock is lost; only the renewer can fire the token.
        guard.lost_token().cancelled().await;
        assert!(guard.is_lost());
    }
    end(guard).await;
    // The watcher ends after a release and after a loss.
    watcher.await.unwrap();
    store.settle().await;
    store.check();
}

/// Without a renewer, the lock ends with its TTL.
async fn plain() {
    let store = Store::new();
    let mut guard = store.guard(None);
    let token = guard.lost_token();
    let watcher = spawn(store.clone().watch(guard.held()));
    for _ in 0..random(0..3) {
        yield_now().await;
        if random(0..2) == 0 {
            give_up_some_time(guard.extend(TTL * random(1..4))).await;
        }
    }
    if random(0..3) == 0 {
        // Held until the TTL is over.
        assert_ne!(guard.lost().await, LossReason::Released);
        assert_eq!(guard.valid_for(), Duration::ZERO);
        assert!(!guard.extend(TTL).await.unwrap().is_extended());
    }
    end(guard).await;
    watcher.await.unwrap();
    token.cancelled().await;
    store.settle().await;
    store.check();
}

/// The guard gives up a short extend at once and then sends a long one. Either may arrive first.
async fn overtaken(store: Store) {
    let mut guard = store.guard(None);
    let watcher = spawn(store.clone().watch(guard.held()));
    give_up_some_time(guard.extend(TTL)).await;
    let _ = guard.extend(TTL * 30).await;
    guard.lost().await;
    drop(guard);
    watcher.await.unwrap();
    store.settle().await;
    store.check();
}

/// The holder never relies on the lock beyond the cap, even if the renewer runs late.
async fn capped() {
    let store = Store::new();
    let cap = Instant::now() + TTL * 3;
    let guard = store.guard(Some(AutoExtend::new().with_max_hold(TTL * 3)));
    while let Ok(until) = guard.held.validity.until() {
        assert!(until <= cap);
        yield_now().await;
    }
    assert_ne!(guard.lost().await, LossReason::Released);
    drop(guard);
    store.settle().await;
    store.check();
}

/// Waits for the answer, but gives up after a few yields.
async fn give_up_some_time(extend: impl Future<Output = Result<ExtendResult, LockError>>) {
    let mut extend = Box::pin(extend);
    for _ in 0..random(1..4) {
        tokio::select! {
            biased;
            _ = &mut extend => return,
            () = yield_now() => {}
        }
    }
}

async fn end(guard: LockGuard<Store>) {
    match random(0..4) {
        0 => drop(guard),
        1 => drop(guard.release().await),
        2 => guard.finish().await,
        _ => {
            // The release is given up half-way.
            let mut release = Box::pin(guard.release());
            for _ in 0..random(0..4) {
                tokio::select! {
                    biased;
                    _ = &mut release => return,
                    () = yield_now() => {}
                }
            }
        }
    }
}

fn random(range: std::ops::Range<u32>) -> u32 {
    shuttle::rand::thread_rng().gen_range(range)
}

/// A store of one lock, with a record of its requests.
#[derive(Clone)]
struct Store(Arc<Mutex<State>>, ClientState);

struct State {
    /// Extends the lock without a check of the expected expiry.
    overwrites: bool,
    expires_at: Instant,
    gone: bool,
    releases_sent: u32,
    is_answered: bool,
    released_again: u32,
    extends_after_release: u32,
    ends_observed: u32,
}

impl Store {
    fn new() -> Self {
        let state = State {
            overwrites: false,
            expires_at: Instant::now() + TTL,
            gone: false,
            releases_sent: 0,
            is_answered: false,
            released_again: 0,
            extends_after_release: 0,
            ends_observed: 0,
        };
        Self(Arc::new(Mutex::new(state)), ClientState::default())
    }

    fn guard(&self, plan: Option<AutoExtend>) -> LockGuard<Self> {
        let lock_id = LockId::new("AAAAAAAAAAAAAAAAAAAAAA").unwrap();
        let observer = {
            let store = self.clone();
            LockObserver::new(move |observation| {
                if matches!(observation, Observation::Hold(_)) {
                    store.0.lock().unwrap().ends_observed += 1;
                }
            })
        };
        let lease = Lease::new(
            self.clone(),
            (Key::new("key").unwrap(), lock_id, Ttl::new(TTL).unwrap()),
            self.1.clone().with_observer(observer),
            Spawner::current(),
            None,
        );
        let expires_at = timestamp(self.0.lock().unwrap().expires_at);
        let acquired = Acquired::new(lock_id, expires_at, Fence::ZERO.next().unwrap());
        let policy = Policy { auto_extend: plan, ..Policy::default() };
        LockGuard::new(Box::new(lease), acquired, Instant::now(), &policy)
    }

    /// Checks until the lock is over that the guard does not rely on it for too long.
    async fn watch(self, held: crate::Held) {
        let mut lost = Box::pin(held.lost());
        loop {
            // Other tasks may run between the two reads, so the guard is read before and after.
            let before = held.validity.until();
            let kept_until = self.0.lock().unwrap().expires_at;
            if let (Ok(before), Ok(after)) = (before, held.validity.until()) {
                assert!(
                    before.min(after) <= kept_until,
                    "the holder relies on a lock for longer than the store keeps it"
                );
            }
            tokio::select! {
                biased;
                _ = &mut lost => break,
                () = yield_now() => {}
            }
        }
        assert!(held.is_lost());
        assert_eq!(held.valid_for(), Duration::ZERO);
        assert!(held.lost_token().is_cancelled());
    }

    /// Waits for the release, and then long enough to see requests that must not follow it.
    async fn settle(&self) {
        while self.0.lock().unwrap().releases_sent == 0 {
            yield_now().await;
        }
        sleep_until(Instant::now() + TTL * 40).await;
        for _ in 0..20 {
            yield_now().await;
        }
        model::tasks_ended().await;
    }

    fn check(&self) {
        let state = self.0.lock().unwrap();
        assert_eq!(state.released_again, 0, "no release after one was answered");
        assert_eq!(state.extends_after_release, 0, "no renewal after the release");
        assert_eq!(state.ends_observed, 1, "the end is told once");
    }

    /// The delay of a request or an answer.
    async fn travel(&self) {
        match random(0..8) {
            0..5 => yield_now().await,
            5 => sleep_until(Instant::now() + TTL / 2).await,
            6 => sleep_until(Instant::now() + TTL * 2).await,
            _ => sleep_until(Instant::now() + TTL * 20).await,
        }
    }

    /// Carries out a request, even if its sender has given up.
    async fn carry_out<T: Send + 'static>(
        &self,
        request: impl FnOnce(&Self) -> Result<T, LockError> + Send + 'static,
    ) -> Result<T, LockError> {
        let (answer, answered) = oneshot::channel();
        let store = self.clone();
        drop(spawn(async move {
            store.travel().await;
            let result = request(&store);
            store.travel().await;
            let _ = answer.send(result);
        }));
        answered.await.unwrap()
    }

    fn extend_to(&self, request: &ExtendRequest) -> Result<ExtendResult, LockError> {
        let (fails, stolen) = (chance(6), chance(12));
        let mut state = self.0.lock().unwrap();
        let now = Instant::now();
        if fails {
            return Err(failure());
        }
        if stolen || state.gone || state.expires_at < now {
            state.gone = true;
            return Ok(ExtendResult::NotHeld(NotHeld::Expired));
        }
        let expires_at = timestamp(state.expires_at);
        let expected = request.expected_expiry.filter(|_| !state.overwrites);
        if expected.is_some_and(|expected| expected != expires_at) {
            return Ok(ExtendResult::Mismatch { expires_at });
        }
        state.expires_at = now + request.ttl.as_duration();
        Ok(ExtendResult::Extended { expires_at: timestamp(state.expires_at) })
    }
}

fn chance(one_in: u32) -> bool {
    random(0..one_in) == 0
}

fn failure() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "try again").with_unknown_outcome()
}

fn timestamp(at: Instant) -> Timestamp {
    Timestamp::from_millis(u64::try_from(at.since_start().as_millis()).unwrap()).unwrap()
}

impl LockBackend for Store {
    type Fence = Fence;

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        {
            let mut state = self.0.lock().unwrap();
            state.extends_after_release += state.releases_sent;
        }
        self.carry_out(move |store| store.extend_to(&request)).await
    }

    async fn release(&self, _: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        {
            let mut state = self.0.lock().unwrap();
            state.releases_sent += 1;
            state.released_again += u32::from(state.is_answered);
        }
        let result = self
            .carry_out(|store| {
                if chance(6) {
                    return Err(failure());
                }
                store.0.lock().unwrap().gone = true;
                Ok(ReleaseResult::Released)
            })
            .await;
        self.0.lock().unwrap().is_answered |= result.is_ok();
        result
    }

    async fn acquire(&self, _: AcquireRequest) -> Result<AcquireResult, LockError> {
        Ok(AcquireResult::Locked(Contention::unknown()))
    }

    async fn is_locked(&self, _: IsLockedRequest) -> Result<bool, LockError> {
        Ok(true)
    }

    async fn lookup(&self, _: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        Ok(None)
    }

    fn capabilities(&self) -> BackendCapabilities {
        BackendCapabilities::new::<Fence>("hostile", TimeAuthority::Server)
    }

    fn client_state(&self) -> &ClientState {
        &self.1
    }
}
