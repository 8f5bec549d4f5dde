use syncguard::{DynBackend, LockError, TryAcquired, acquire, memory::MemoryBackend, try_acquire};

/// The code under test.
async fn clean_up_unless_busy(locks: &DynBackend) -> Result<bool, LockError> {
    match try_acquire(locks, "cleanup").await? {
        TryAcquired::Acquired(guard) => {
            // … clean up …
            guard.release().await.map(|_| true)
        }
        TryAcquired::Busy(_) => Ok(false),
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
