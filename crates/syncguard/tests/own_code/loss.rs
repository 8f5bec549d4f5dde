use std::time::Duration;
use syncguard::{AutoExtend, LockConfig, LockError, LossReason, lock, memory::TestStore};

/// The code under test: works for ever, until it loses its lock.
async fn lead(locks: &TestStore) -> Result<LossReason, LockError> {
    let leader = LockConfig::new("leader").with_auto_extend(AutoExtend::new());
    lock(locks, leader, async |held| held.lost().await).await
}

#[tokio::test(start_paused = true)]
async fn a_leader_steps_down_when_its_lock_is_taken_away() -> Result<(), LockError> {
    let store = TestStore::new();
    let locks = store.clone();
    let leader = tokio::spawn(async move { lead(&locks).await });

    // An hour passes in no time, and the lock is renewed.
    tokio::time::sleep(Duration::from_secs(3600)).await;
    assert!(!leader.is_finished());

    // The next renewal finds that the lock is gone.
    assert!(store.lose_lock("leader")?);
    assert_eq!(leader.await.expect("no panic")?, LossReason::NotHeld);
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn a_leader_steps_down_when_the_store_is_away_for_a_ttl() -> Result<(), LockError> {
    let store = TestStore::new();
    let locks = store.clone();
    let leader = tokio::spawn(async move { lead(&locks).await });
    tokio::time::sleep(Duration::from_secs(1)).await;

    store.set_down(true);
    assert_eq!(leader.await.expect("no panic")?, LossReason::Expired);
    Ok(())
}
