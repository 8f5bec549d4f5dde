//! Troubles that users of locks met in the field, one test each, on real servers: stores that fill up, move, fall
//! silent, refuse or hide.

mod credentials;
mod etcd;
mod firestore;
mod lasting;
mod object_store;
mod postgres;
mod redis;
mod runtimes;
pub(crate) mod silent;
mod sqlite;

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, ExtendRequest};
use syncguard::{LockBackend, LockId};

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) async fn take<B: LockBackend>(backend: &B, key: &str) -> Result<LockId> {
    let acquired = backend.acquire(AcquireRequest::new(key, MINUTE)?).await?;
    Ok(acquired.acquired().context("a free key")?.lock_id)
}

/// How many calls fail until the lock is extended.
async fn failures_before_an_extend<B: LockBackend>(backend: &B, lock: LockId) -> Result<usize> {
    for failures in 0..100 {
        match backend.extend(ExtendRequest::new(lock, MINUTE)?).await {
            Ok(extended) => {
                ensure!(extended.is_extended(), "{extended:?}");
                return Ok(failures);
            }
            Err(error) => ensure!(error.is_retryable(), "{error:?}"),
        }
    }
    anyhow::bail!("it is never extended")
}
