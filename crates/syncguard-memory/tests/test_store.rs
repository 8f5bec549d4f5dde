//! The store that fails when a test says so.

use std::time::Duration;

use syncguard_memory::contract::{AcquireRequest, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_memory::inventory::ListRequest;
use syncguard_memory::{ErrorCode, Fence, LockBackend as _, LockError, TestStore};
use tokio::time::Instant;

const TTL: Duration = Duration::from_secs(9);

#[tokio::test(start_paused = true)]
async fn denied_writes_change_nothing() -> Result<(), LockError> {
    let store = TestStore::new();
    let held = store.acquire(AcquireRequest::new("key", TTL)?).await?.acquired().unwrap();
    store.set_writes_denied(true);
    for denied in [
        store.acquire(AcquireRequest::new("other", TTL)?).await.unwrap_err(),
        store.extend(ExtendRequest::new(held.lock_id, 2 * TTL)?).await.unwrap_err(),
        store.release(ReleaseRequest::new(held.lock_id)).await.unwrap_err(),
    ] {
        assert_eq!(denied.code(), ErrorCode::AuthFailed);
    }
    let found = store.lookup(LookupRequest::by_key("key")?).await?.unwrap();
    assert_eq!((found.expires_at, store.memory().stored_locks()), (held.expires_at, 1));
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn the_inventory_has_the_faults_of_the_store() -> Result<(), LockError> {
    let store = TestStore::new();
    let inventory = store.inventory().unwrap();
    let fence = Fence::new(7)?;
    store.set_writes_denied(true);
    assert_eq!(
        inventory.raise_counter("key", fence).await.unwrap_err().code(),
        ErrorCode::AuthFailed
    );
    assert_eq!(inventory.fence_counter("key").await?, None);

    store.set_writes_denied(false);
    store.set_delay(TTL);
    let asked = Instant::now();
    assert_eq!(inventory.raise_counter("key", fence).await?, fence);
    assert_eq!(asked.elapsed(), TTL);

    store.set_down(true);
    for failed in [
        inventory.list_locks(ListRequest::new()).await.unwrap_err(),
        inventory.list_counters(ListRequest::new()).await.unwrap_err(),
        inventory.fence_counter("key").await.unwrap_err(),
        inventory.raise_counter("key", fence).await.unwrap_err(),
    ] {
        assert_eq!(failed.code(), ErrorCode::ServiceUnavailable);
    }
    Ok(())
}
