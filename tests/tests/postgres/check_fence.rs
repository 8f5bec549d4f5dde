//! `check_fence` in the user's own transaction.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, ReleaseRequest};
use syncguard_postgres::tokio_postgres::{Client, IsolationLevel};
use syncguard_postgres::{
    CheckFenceError, ErrorCode, Fence, Key, LockBackend as _, LockId, NotHeld, PostgresBackend,
    ReleaseResult, acquire, check_fence_sql,
};

use crate::postgres::support::{
    MINUTE, Tables, connect, extend, is_refused, over_pool, release, shared, stage, take, waiters,
};

struct Fixture {
    tables: Tables,
    backend: PostgresBackend,
    user: Client,
    admin: Client,
}

impl Fixture {
    async fn new() -> Self {
        let (tables, backend, admin) = stage(4).await;
        Self { tables, backend, user: connect(&shared().url()).await, admin }
    }
}

fn why(error: CheckFenceError) -> NotHeld {
    match error {
        CheckFenceError::NotHeld(why) => why,
        other => panic!("{other}"),
    }
}

/// Two checks in one transaction, and a check through a transaction of the pool, are fine too.
#[tokio::test]
async fn work_commits_under_a_lock_that_is_held() -> Result<()> {
    let mut it = Fixture::new().await;
    let guard = acquire(&it.backend, "key").await?;
    let mut pooled = it.backend.pool().get().await?;
    let pooled = pooled.transaction().await?;
    it.backend.check_fence(&pooled, guard.lock_id(), guard.fence()).await?;
    pooled.commit().await?;
    let transaction = it.user.transaction().await?;
    for _ in 0..2 {
        it.backend.check_fence(&transaction, guard.lock_id(), guard.fence()).await?;
    }
    // Only the 15 digits are the fence.
    let elsewhere = check_fence_sql(&it.tables.options())?;
    let (lock_id, fence) = (guard.lock_id(), guard.fence().to_string());
    for (digits, rows) in [(Some(fence), 1), (Some("1".to_owned()), 0), (None, 0)] {
        ensure!(
            transaction.query(&elsewhere, &[&lock_id.expose(), &digits]).await?.len() == rows,
            "{digits:?}"
        );
    }
    transaction.commit().await?;
    ensure!(guard.release().await?.is_released());
    Ok(())
}

/// Of locks that are extended together, those whose row another transaction has locked delay no other, and a checked one
/// is extended with the others.
#[tokio::test]
async fn a_batch_of_extends_passes_a_check_and_leaves_locked_rows_to_themselves() -> Result<()> {
    let mut it = Fixture::new().await;
    let mut locks = Vec::new();
    for key in ["checked", "blocked", "free"] {
        locks.push(take(&it.backend, key).await);
    }
    let transaction = it.user.transaction().await?;
    it.backend.check_fence(&transaction, locks[0].lock_id, locks[0].fence).await?;
    let mut blocker = connect(&shared().url()).await;
    let block = blocker.transaction().await?;
    let sql = format!("SELECT FROM {} WHERE key = 'blocked' FOR UPDATE", it.tables.locks);
    block.execute(&sql, &[]).await?;
    let mut extends = locks.iter().map(|lock| {
        let request = ExtendRequest::new(lock.lock_id, 2 * MINUTE).expect("a request");
        let request = request.with_expected_expiry(lock.expires_at).with_others(true);
        let backend = it.backend.clone();
        tokio::spawn(async move { backend.extend(request).await })
    });
    let [checked, blocked, free] = [(); 3].map(|()| extends.next().expect("three"));
    ensure!(checked.await??.is_extended() && free.await??.is_extended());
    // It goes alone, and waits for the row.
    waiters(&it.admin, &it.tables.locks, 1).await;
    ensure!(!blocked.is_finished());
    block.rollback().await?;
    ensure!(blocked.await??.is_extended());
    transaction.commit().await?;
    Ok(())
}

#[tokio::test]
async fn a_lock_that_is_not_held_is_refused() -> Result<()> {
    let mut it = Fixture::new().await;
    let released = take(&it.backend, "released").await;
    release(&it.backend, released.lock_id).await?;
    let expired = take(&it.backend, "expired").await;
    it.tables.age(&it.admin, "expired", 120_000).await;
    let replaced = take(&it.backend, "replaced").await;
    it.tables.age(&it.admin, "replaced", 120_000).await;
    let heir = take(&it.backend, "replaced").await;

    let cases = [
        (LockId::generate()?, Fence::new(1)?, NotHeld::NotFound),
        (released.lock_id, released.fence, NotHeld::NotFound),
        (expired.lock_id, expired.fence, NotHeld::Expired),
        (replaced.lock_id, replaced.fence, NotHeld::NotFound),
        // The right lock and another fence: the caller mixes up two acquisitions.
        (heir.lock_id, replaced.fence, NotHeld::NotFound),
    ];
    let elsewhere = check_fence_sql(&it.tables.options())?;
    for (lock_id, fence, expected) in cases {
        let transaction = it.user.transaction().await?;
        let (id, number) = (lock_id.expose(), fence.to_string());
        ensure!(transaction.query(&elsewhere, &[&id, &number]).await?.is_empty(), "{expected:?}");
        let error = it.backend.check_fence(&transaction, lock_id, fence).await.unwrap_err();
        assert!(!error.to_string().contains(lock_id.expose()));
        assert_eq!(why(error), expected);
        transaction.rollback().await?;
    }
    Ok(())
}

/// The holder's lock expires while its transaction is open. Until the commit no other caller can get the lock, so the
/// work of the two never overlaps.
#[tokio::test]
async fn nobody_takes_over_before_the_commit() -> Result<()> {
    let mut it = Fixture::new().await;
    let first = take(&it.backend, "key").await;
    let transaction = it.user.transaction().await?;
    it.backend.check_fence(&transaction, first.lock_id, first.fence).await?;

    // Extends succeed, also those of auto-extend.
    extend(&it.backend, first.lock_id).await?;

    // The lock expires: without the transaction, it would be free for every caller.
    it.tables.age(&it.admin, "key", 120_000).await;
    for _ in 0..3 {
        ensure!(is_refused(&it.backend, "key").await, "taken over under an open transaction");
    }
    assert_eq!(it.tables.counter(&it.admin, "key").await, 1, "a fence was used up");
    transaction.commit().await?;
    assert_eq!(take(&it.backend, "key").await.fence.get(), 2);
    // The first holder wakes up and wants to write again.
    let late = it.user.transaction().await?;
    let refused = it.backend.check_fence(&late, first.lock_id, first.fence).await.unwrap_err();
    assert_eq!(why(refused), NotHeld::NotFound);
    Ok(())
}

/// The caller waits no longer than its limit, and then the lock is unchanged.
#[tokio::test]
async fn a_release_gives_up_on_an_endless_transaction() -> Result<()> {
    let mut it = Fixture::new().await;
    let options = it.tables.options().with_statement_timeout(Duration::from_secs(6));
    let hasty = over_pool(it.backend.pool().clone(), options);
    let lock = take(&hasty, "key").await;
    let transaction = it.user.transaction().await?;
    it.backend.check_fence(&transaction, lock.lock_id, lock.fence).await?;
    let error = hasty.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err();
    assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error}");
    ensure!(!error.is_outcome_unknown(), "{error}");
    transaction.rollback().await?;
    release(&hasty, lock.lock_id).await
}

/// If the lock expires meanwhile, the release comes too late, like any other, and raises no counter.
#[tokio::test]
async fn a_release_waits_for_the_commit() -> Result<()> {
    let expired = ReleaseResult::NotHeld(NotHeld::Expired);
    // The lock lasts for a minute, and the tolerance is a second.
    let left = Duration::from_secs(3);
    let later = left + Duration::from_millis(100);
    tokio::try_join!(
        releases_at_the_commit(MINUTE, None, Duration::from_millis(600), ReleaseResult::Released),
        releases_at_the_commit(left, None, later, expired),
        releases_at_the_commit(left, Some(Fence::new(9)?), later, expired),
    )?;
    Ok(())
}

/// Releases a lock that a transaction relies on, and commits so much later. `left` is what is left of TTL and tolerance.
async fn releases_at_the_commit(
    left: Duration,
    raised: Option<Fence>,
    commits_after: Duration,
    expected: ReleaseResult,
) -> Result<()> {
    let mut it = Fixture::new().await;
    let options = it.tables.options().with_statement_timeout(MINUTE);
    let backend = over_pool(it.backend.pool().clone(), options);
    let lock = take(&backend, "key").await;
    let transaction = it.user.transaction().await?;
    it.backend.check_fence(&transaction, lock.lock_id, lock.fence).await?;
    let older = (MINUTE + Duration::from_secs(1)).saturating_sub(left);
    it.tables.age(&it.admin, "key", i64::try_from(older.as_millis())?).await;
    let mut request = ReleaseRequest::new(lock.lock_id);
    if let Some(raised) = raised {
        request = request.with_counter_at_least(Key::new("key")?, raised)?;
    }
    let release = tokio::spawn(async move { backend.release(request).await });
    waiters(&it.admin, &it.tables.locks, 1).await;
    tokio::time::sleep(commits_after).await;
    ensure!(!release.is_finished());
    transaction.commit().await?;
    assert_eq!(release.await??, expected);
    assert_eq!(take(&it.backend, "key").await.fence.get(), 2);
    Ok(())
}

/// A takeover is being committed when the check comes.
#[tokio::test]
async fn a_check_waits_for_a_takeover_under_way() -> Result<()> {
    let mut it = Fixture::new().await;
    let lock = take(&it.backend, "key").await;
    let mut rival = connect(&shared().url()).await;
    let takeover = rival.transaction().await?;
    let sql = format!("UPDATE {} SET lock_id = repeat('x', 22)", it.tables.locks);
    takeover.execute(&sql, &[]).await?;
    let commit = async {
        waiters(&it.admin, &it.tables.locks, 1).await;
        takeover.commit().await
    };
    let transaction = it.user.transaction().await?;
    let check = it.backend.check_fence(&transaction, lock.lock_id, lock.fence);
    let (committed, checked) = tokio::join!(commit, check);
    committed?;
    assert_eq!(why(checked.unwrap_err()), NotHeld::NotFound);
    Ok(())
}

#[tokio::test]
async fn stricter_transactions_fail_instead_of_seeing_the_past() -> Result<()> {
    for level in [IsolationLevel::RepeatableRead, IsolationLevel::Serializable] {
        let mut it = Fixture::new().await;
        let lock = take(&it.backend, "key").await;
        let builder = it.user.build_transaction().isolation_level(level);
        let transaction = builder.start().await?;
        transaction.execute("SELECT 1", &[]).await?;
        it.tables.age(&it.admin, "key", 120_000).await;
        let heir = take(&it.backend, "key").await;
        let error = it.backend.check_fence(&transaction, lock.lock_id, lock.fence).await;
        let CheckFenceError::Failed(error) = error.unwrap_err() else {
            panic!("it saw the past");
        };
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error}");
        drop(transaction);

        let transaction = it.user.build_transaction().isolation_level(level).start().await?;
        it.backend.check_fence(&transaction, heir.lock_id, heir.fence).await?;
        transaction.commit().await?;

        // A lock that was extended after the transaction's first statement looks expired to it, which is safe.
        it.tables.age(&it.admin, "key", 120_000).await;
        let transaction = it.user.build_transaction().isolation_level(level).start().await?;
        transaction.execute("SELECT 1", &[]).await?;
        it.tables.age(&it.admin, "key", -120_000).await;
        let error = it.backend.check_fence(&transaction, heir.lock_id, heir.fence).await;
        assert_eq!(why(error.unwrap_err()), NotHeld::Expired);
    }
    Ok(())
}
