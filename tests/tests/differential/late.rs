//! Writes that arrive after their deadline change nothing at a simulated server, as at the real one, of which the conformance
//! suite asks it. Firestore has no deadlines: its preconditions refuse late requests.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard::contract::{AcquireRequest, Acquired, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard::{LockBackend as _, LockError};
use syncguard_simulation::{Direct, Store};
use tokio::time::sleep;

const HOUR: Duration = Duration::from_secs(3600);

async fn take(backend: &Direct, key: &str) -> Result<Acquired> {
    backend.acquire(AcquireRequest::new(key, HOUR)?).await?.acquired().context("a free key")
}

/// The error of a write whose answer does not come.
async fn given_up(backend: &Direct, write: &str, held: &Acquired) -> Result<LockError> {
    backend.hold_next();
    let result = match write {
        "acquire" => backend.acquire(AcquireRequest::new("free", HOUR)?).await.map(drop),
        "extend" => backend.extend(ExtendRequest::new(held.lock_id, 2 * HOUR)?).await.map(drop),
        _ => backend.release(ReleaseRequest::new(held.lock_id)).await.map(drop),
    };
    let Err(error) = result else { bail!("{write}: an answer") };
    Ok(error)
}

#[tokio::test]
async fn what_comes_late_changes_nothing() -> Result<()> {
    for store in [Store::Redis, Store::Postgres] {
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
