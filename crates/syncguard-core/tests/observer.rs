//! What an observer hears, and what it cannot break.

use std::panic::panic_any;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use syncguard_core::{
    AcquireRequest, AcquireResult, AcquisitionEnd, BackendCapabilities, ClientState, ExtendRequest,
    ExtendResult, Fence, IsLockedRequest, LockBackend, LockError, LockInfo, LockObserver,
    LookupRequest, LossReason, Observation, ReleaseRequest, ReleaseResult, lock, try_lock,
};
use syncguard_memory::MemoryBackend;

#[tokio::test(start_paused = true)]
async fn both_of_two_observers_hear_of_wait_and_hold() {
    let (first, second) = (Heard::default(), Heard::default());
    let backend = Observed::new(first.observer().and(second.observer()));
    lock(&backend, "key", async |_| tokio::time::sleep(SECOND).await).await.unwrap();
    for heard in [first, second] {
        let all = heard.take();
        let [Observation::Acquisition(wait), Observation::Hold(hold)] = &all[..] else {
            panic!("{all:?}")
        };
        assert_eq!((wait.end, wait.attempts), (AcquisitionEnd::Acquired, 1));
        assert_eq!((hold.reason, hold.held), (LossReason::Released, SECOND));
        assert_eq!((wait.key.expose(), hold.key.expose()), ("key", "key"));
        assert_eq!(wait.lock_id, hold.lock_id);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_an_observer_breaks_neither_the_lock_nor_the_other_observer() {
    let heard = Heard::default();
    let broken = LockObserver::new(|_| panic!("as the test wants it"));
    for observer in [broken.clone().and(heard.observer()), heard.observer().and(broken)] {
        let backend = Observed::new(observer);
        let guard = try_lock(&backend, "key").await.unwrap().unwrap();
        assert!(guard.release().await.unwrap().is_released());
        assert_eq!(heard.take().len(), 2);
    }
}

/// What a panic carries can panic again when it is dropped.
#[tokio::test(start_paused = true)]
async fn a_panic_whose_payload_panics_breaks_nothing_either() {
    let heard = Heard::default();
    let broken = LockObserver::new(|_| panic_any(PanicsAgain::new()));
    for observer in [broken.clone().and(heard.observer()), heard.observer().and(broken)] {
        let backend = Observed::new(observer);
        let guard = try_lock(&backend, "key").await.unwrap().unwrap();
        assert!(guard.release().await.unwrap().is_released());
        let worked = lock(&backend, "key", async |_| 7).await.unwrap();
        assert_eq!((worked, heard.take().len()), (7, 4));
    }
}

#[test]
fn nobody_and_somebody_is_somebody() {
    assert!(LockObserver::none().is_none());
    assert!(LockObserver::none().and(LockObserver::none()).is_none());
    let heard = Heard::default();
    assert!(!LockObserver::none().and(heard.observer()).is_none());
    assert!(!heard.observer().and(LockObserver::none()).is_none());
    assert!(ClientState::default().observer.is_none());
}

/// Dropping it panics, and while that unwinds its field does: caught or not, that would end the process.
struct PanicsAgain(AndOnceMore);

struct AndOnceMore;

impl PanicsAgain {
    fn new() -> Self {
        Self(AndOnceMore)
    }
}

impl Drop for PanicsAgain {
    fn drop(&mut self) {
        panic!("as the test wants it, in the drop of a payload");
    }
}

impl Drop for AndOnceMore {
    fn drop(&mut self) {
        panic!("as the test wants it, in a field's drop");
    }
}

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Default)]
struct Heard(Arc<Mutex<Vec<Observation>>>);

impl Heard {
    fn observer(&self) -> LockObserver {
        let heard = Arc::clone(&self.0);
        LockObserver::new(move |observation| heard.lock().unwrap().push(observation.clone()))
    }

    fn take(&self) -> Vec<Observation> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

#[derive(Clone)]
struct Observed {
    inner: MemoryBackend,
    defaults: ClientState,
}

impl Observed {
    fn new(observer: LockObserver) -> Self {
        let inner = MemoryBackend::new();
        let defaults = inner.client_state().clone().with_observer(observer);
        Self { inner, defaults }
    }
}

impl LockBackend for Observed {
    type Fence = Fence;

    async fn acquire(&self, request: AcquireRequest) -> Result<AcquireResult, LockError> {
        self.inner.acquire(request).await
    }

    async fn release(&self, request: ReleaseRequest) -> Result<ReleaseResult, LockError> {
        self.inner.release(request).await
    }

    async fn extend(&self, request: ExtendRequest) -> Result<ExtendResult, LockError> {
        self.inner.extend(request).await
    }

    async fn is_locked(&self, request: IsLockedRequest) -> Result<bool, LockError> {
        self.inner.is_locked(request).await
    }

    async fn lookup(&self, request: LookupRequest) -> Result<Option<LockInfo>, LockError> {
        self.inner.lookup(request).await
    }

    fn capabilities(&self) -> BackendCapabilities {
        self.inner.capabilities()
    }

    fn client_state(&self) -> &ClientState {
        &self.defaults
    }
}
