//! The store that fails when a test says so.

use std::time::Duration;

use syncguard_memory::contract::{AcquireRequest, ExtendRequest, LookupRequest, ReleaseRequest};
use syncguard_memory::{ErrorCode, LockBackend as _, LockError, TestStore};

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
