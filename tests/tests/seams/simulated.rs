//! The simulated servers, where it is the conformance suite that asks the real ones.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::contract::{AcquireRequest, Acquired, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard::{DynBackend, ExtendResult, LockBackend as _, LockError, ReleaseResult, Timestamp};
use syncguard_simulation::{Direct, Store as Simulated};
use syncguard_test_services::store::Store;
use syncguard_tests::calls::until;
use tokio::time::sleep;

/// The simulated server of a store that has one; the simulation has the real store of memory.
fn simulated_by(store: Store) -> Option<Simulated> {
    Simulated::of(store).first().copied().filter(|simulated| *simulated != Simulated::Memory)
}

/// Backends with simulated servers of their own, for the tests `differential` as well.
pub(crate) fn simulated() -> Vec<DynBackend> {
    let stores = Store::ALL.into_iter().filter_map(simulated_by);
    stores.map(|store| DynBackend::new(Direct::new(store))).collect()
}

/// True if its writes carry a deadline in the store's own time.
const fn has_deadlines(store: Store) -> bool {
    match store {
        Store::Memory | Store::Sqlite | Store::Redis | Store::Postgres => true,
        // Preconditions refuse a write that comes late if something has moved; else it takes effect.
        Store::Etcd | Store::Firestore | Store::ObjectStore => false,
    }
}

const HOUR: Duration = Duration::from_secs(3600);

async fn take(backend: &Direct, key: &str) -> Result<Acquired> {
    backend.acquire(AcquireRequest::new(key, HOUR)?).await?.acquired().context("a free key")
}

/// Uses a connection for all writes, so that the next request is the write and does not prepare it.
async fn is_warm(backend: &Direct) -> bool {
    let writes = async {
        let request = AcquireRequest::new("warm", HOUR)?;
        let id = request.lock_id;
        let _ = backend.acquire(request).await?;
        let _ = backend.extend(ExtendRequest::new(id, HOUR)?).await?;
        backend.release(ReleaseRequest::new(id)).await
    };
    let is_released = writes.await.is_ok_and(ReleaseResult::is_released);
    is_released && backend.client_state().pending_releases() == 0
}

/// The error of a write whose answer does not come.
async fn given_up(backend: &Direct, write: &str, held: &Acquired) -> Result<LockError> {
    until("a warm connection", async || is_warm(backend).await).await;
    backend.hold_next();
    let result = match write {
        "acquire" => backend.acquire(AcquireRequest::new("free", HOUR)?).await.map(drop),
        "extend" => backend.extend(ExtendRequest::new(held.lock_id, 2 * HOUR)?).await.map(drop),
        _ => backend.release(ReleaseRequest::new(held.lock_id)).await.map(drop),
    };
    let Err(error) = result else { bail!("{write}: an answer") };
    Ok(error)
}

/// Writes that arrive after their deadline.
#[tokio::test(start_paused = true)]
async fn what_comes_late_changes_nothing() -> Result<()> {
    let stores = Store::ALL.into_iter().filter(|store| has_deadlines(*store));
    for store in stores.filter_map(simulated_by) {
        let backend = Direct::new(store);
        let held = take(&backend, "held").await?;
        for write in ["acquire", "extend", "release"] {
            let error = given_up(&backend, write, &held).await?;
            ensure!(error.is_outcome_unknown(), "{write}: {error}");
            // The clean-up of an acquire has found nothing and ended; then the acquire arrives.
            sleep(Duration::from_millis(700)).await;
            ensure!(backend.deliver());
            // The server has the request and needs a moment.
            sleep(Duration::from_millis(200)).await;
            let found = backend.lookup(LookupRequest::by_key("held")?).await?.context(write)?;
            ensure!((found.fence, found.expires_at) == (held.fence, held.expires_at), "{write}");
        }
        ensure!(take(&backend, "free").await?.fence.get() == 1);
        ensure!(backend.release(ReleaseRequest::new(held.lock_id)).await?.is_released());
    }
    Ok(())
}

#[tokio::test]
async fn they_judge_expectations_as_the_real_ones() -> Result<()> {
    for backend in simulated() {
        let request = AcquireRequest::new("expected", HOUR)?;
        let id = request.lock_id;
        let lock = backend.acquire(request).await?.acquired().context("a free key")?;
        let expires_at = lock.expires_at;
        let extend = async |expected| {
            let request = ExtendRequest::new(id, 2 * HOUR)?.with_expected_expiry(expected);
            backend.extend(request).await
        };
        let wrong = Timestamp::from_millis(expires_at.as_millis() - 1)?;
        ensure!(extend(wrong).await? == ExtendResult::Mismatch { expires_at });
        ensure!(extend(expires_at).await?.is_extended());
        ensure!(matches!(extend(expires_at).await?, ExtendResult::Mismatch { .. }));
        ensure!(backend.release(ReleaseRequest::new(id)).await?.is_released());
        ensure!(!extend(expires_at).await?.is_extended());
    }
    Ok(())
}
