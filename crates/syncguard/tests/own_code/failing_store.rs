use syncguard::{LockBackend, lock, memory::TestStore};

/// The code under test: puts the work off while the store is away.
async fn refresh_cache(locks: &impl LockBackend) -> &'static str {
    match lock(locks, "cache", async |_held| "refreshed").await {
        Ok(done) => done,
        Err(error) if error.is_retryable() => "later",
        Err(_) => "never",
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_down_is_tried_again_later() {
    let store = TestStore::new();
    store.set_down(true);
    assert_eq!(refresh_cache(&store).await, "later");

    store.set_down(false);
    assert_eq!(refresh_cache(&store).await, "refreshed");
}

#[tokio::test(start_paused = true)]
async fn a_store_without_permission_is_not_tried_again() {
    let store = TestStore::new();
    store.set_writes_denied(true);
    assert_eq!(refresh_cache(&store).await, "never");
}
