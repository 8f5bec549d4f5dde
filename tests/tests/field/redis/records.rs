//! Records that somebody has put under the name of another key.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard::contract::{AcquireRequest, LookupRequest};
use syncguard::inventory::ListRequest;
use syncguard::redis::RedisBackend;
use syncguard::{ErrorCode, LockBackend as _};
use syncguard_test_services::redis::RedisServer;

/// The record of `victim` says that it is the lock of `other`. No look-up may take it for that.
#[tokio::test]
async fn a_record_under_the_name_of_another_key_is_corrupt() -> Result<()> {
    let server = RedisServer::start()?;
    let backend = RedisBackend::connect(&server.url()).await?;
    let granted = backend.acquire(AcquireRequest::new("victim", Duration::from_secs(60))?).await?;
    let lock = granted.acquired().context("a free lock")?;
    let record = server.cli(&["GET", "syncguard:victim"])?;
    server.cli(&["SET", "syncguard:victim", &record.replace("\"victim\"", "\"other\"")])?;
    for request in [LookupRequest::by_key("victim")?, LookupRequest::by_lock_id(lock.lock_id)] {
        let error = backend.lookup(request).await.unwrap_err();
        ensure!(error.code() == ErrorCode::Internal, "{error:?}");
        ensure!(error.message().contains("that of another record"), "{error:?}");
    }
    let page = backend.inventory().context("an inventory")?.list_locks(ListRequest::new()).await?;
    ensure!(page.entries.is_empty() && page.corrupt.len() == 1);
    // The record is a lock all the same: nobody gets the key.
    let again = AcquireRequest::new("victim", Duration::from_secs(60))?;
    ensure!(backend.acquire(again).await?.is_locked());
    Ok(())
}
