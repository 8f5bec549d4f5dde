use syncguard::{DynBackend, LockError, acquire, memory::MemoryBackend, try_lock};

/// The code under test.
async fn clean_up_unless_busy(locks: &DynBackend) -> Result<bool, LockError> {
    match try_lock(locks, "cleanup").await? {
        Some(guard) => {
            // … clean up …
            guard.release().await.map(|_| true)
        }
        None => Ok(false),
    }
}

#[tokio::test]
async fn a_busy_cleanup_is_skipped() -> Result<(), LockError> {
    let locks = DynBackend::new(MemoryBackend::new());
    let somebody = acquire(&locks, "cleanup").await?;
    assert!(!clean_up_unless_busy(&locks).await?);

    assert!(somebody.release().await?.is_released());
    assert!(clean_up_unless_busy(&locks).await?);
    Ok(())
}
