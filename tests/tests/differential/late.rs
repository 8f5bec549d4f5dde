//! Requests that arrive after their deadline, at the simulated servers and at the real ones, change nothing. Firestore has no
//! deadlines: its preconditions refuse late requests, and the random sequences check them.

use std::time::Duration;

use syncguard::contract::{AcquireRequest, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard::{DynBackend, LockBackend as _, LockError, LockId};
use syncguard_simulation::{Direct, Store};
use syncguard_test_services::proxy::Hold;
use tokio::time::sleep;

use crate::differential::stores::{Behind, warm_up};

const HOUR: Duration = Duration::from_secs(3600);

#[derive(Clone, Copy, Debug)]
enum Write {
    Acquire,
    Extend,
    Release,
}

/// The final state.
#[derive(Debug, PartialEq, Eq)]
struct Seen {
    /// Returns true if it is the earlier lock with its earlier expiry.
    lock: Option<(bool, bool)>,
    /// The lock of the next caller.
    next_fence: u64,
}

/// The connection to a store.
enum Way<'a> {
    Real(&'a Behind),
    Simulated(&'a Direct),
}

impl Way<'_> {
    async fn hold_next(&self, backend: &DynBackend) {
        // Otherwise a request that only prepares the write would be held.
        warm_up(backend).await;
        match self {
            Self::Real(behind) => behind.proxy.hold(Hold::Next),
            Self::Simulated(direct) => direct.hold_next(),
        }
    }

    /// Delivers the held request to the server after its sender has gone.
    async fn deliver(&self) {
        match self {
            Self::Real(behind) => {
                behind.proxy.sever_clients();
                assert_eq!(behind.proxy.deliver(), 1);
            }
            Self::Simulated(direct) => assert!(direct.deliver()),
        }
        // The server has the request and needs a moment.
        sleep(Duration::from_millis(200)).await;
    }
}

async fn acquire(backend: &DynBackend, key: &str) -> (LockId, u64, u64) {
    let request = AcquireRequest::new(key, HOUR).expect("a request");
    let lock = backend.acquire(request).await.expect("an answer").acquired().expect("a lock");
    (lock.lock_id, lock.fence.get(), lock.expires_at.as_millis())
}

async fn release(backend: &DynBackend, id: LockId) {
    let answer = backend.release(ReleaseRequest::new(id)).await;
    assert!(answer.expect("an answer").is_released());
}

/// A write that is delivered long after its deadline. `direct` is another connection to the same store.
async fn late(way: Way<'_>, backend: &DynBackend, direct: &DynBackend, write: Write) -> Seen {
    let key = format!("{write:?}");
    let before = match write {
        Write::Acquire => None,
        Write::Extend | Write::Release => Some(acquire(direct, &key).await),
    };
    way.hold_next(backend).await;
    let given_up: Result<(), LockError> = match before {
        None => {
            let request = AcquireRequest::new(key.as_str(), HOUR).expect("a request");
            backend.acquire(request).await.map(|_| ())
        }
        Some((id, ..)) if matches!(write, Write::Extend) => {
            let request = ExtendRequest::new(id, 2 * HOUR).expect("a request");
            backend.extend(request).await.map(|_| ())
        }
        Some((id, ..)) => backend.release(ReleaseRequest::new(id)).await.map(|_| ()),
    };
    let error = given_up.expect_err("no answer");
    let name = backend.capabilities().backend;
    assert!(error.is_outcome_unknown(), "{name}, {write:?}: {error}");
    // The clean-up of an acquire has found nothing and ended; then the acquire arrives.
    sleep(Duration::from_millis(700)).await;
    way.deliver().await;
    let found = direct.lookup(LookupRequest::by_key(key.as_str()).expect("a key")).await;
    let lock = found.expect("an answer").map(|info| {
        let raw = info.expose();
        let (id, _, expires_at) = before.unwrap_or((raw.lock_id, 0, 0));
        (id == raw.lock_id, expires_at == raw.info.expires_at.as_millis())
    });
    if let Some((id, ..)) = before {
        release(direct, id).await;
    }
    let (id, next_fence, _) = acquire(direct, &key).await;
    release(direct, id).await;
    Seen { lock, next_fence }
}

#[tokio::test]
async fn what_comes_late_changes_nothing_here_or_there() {
    let stores =
        [(Behind::redis().await, Store::Redis), (Behind::postgres().await, Store::Postgres)];
    for (behind, store) in stores {
        let simulated = Direct::new(store);
        let beside = DynBackend::new(simulated.clone());
        let Behind { backend, direct, .. } = &behind;
        for write in [Write::Acquire, Write::Extend, Write::Release] {
            let real = late(Way::Real(&behind), backend, direct, write).await;
            let simulated = late(Way::Simulated(&simulated), &beside, &beside, write).await;
            let name = direct.capabilities().backend;
            assert_eq!(real, simulated, "{name}, {write:?}");
            let unchanged = match write {
                Write::Acquire => Seen { lock: None, next_fence: 1 },
                Write::Extend | Write::Release => Seen { lock: Some((true, true)), next_fence: 2 },
            };
            assert_eq!(real, unchanged, "{name}, {write:?}");
        }
    }
}
