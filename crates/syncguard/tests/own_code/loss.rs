use std::time::Duration;
use syncguard::contract::ReleaseRequest;
use syncguard::{
    AutoExtend, LockBackend, LockConfig, LockError, LossReason, lock, memory::MemoryBackend,
};

/// The code under test: works for ever, until it loses its lock.
async fn lead(locks: &MemoryBackend) -> Result<LossReason, LockError> {
    let leader = LockConfig::new("leader").with_auto_extend(AutoExtend::new());
    lock(locks, leader, async |held| held.lost().await).await
}

#[tokio::test(start_paused = true)]
async fn a_leader_steps_down_when_its_lock_is_taken_away() -> Result<(), LockError> {
    let locks = MemoryBackend::new();
    let leader = tokio::spawn({
        let locks = locks.clone();
        async move { lead(&locks).await }
    });

    // An hour passes in no time, and the lock is renewed.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    let info = syncguard::diagnostics::get_by_key_raw(&locks, "leader").await?.expect("it is held");
    assert!(!leader.is_finished());

    // The lock id alone is enough to release a lock.
    let released = locks.release(ReleaseRequest::new(info.lock_id)).await?;
    assert!(released.is_released());

    // The next renewal finds that the lock is gone.
    assert_eq!(leader.await.expect("no panic")?, LossReason::NotHeld);
    Ok(())
}
