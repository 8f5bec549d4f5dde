//! Many waiters, and few connections.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{LookupRequest, ReleaseRequest};
use syncguard_postgres::deadpool_postgres::Object;
use syncguard_postgres::{ErrorCode, Fence, Key, LockBackend as _};
use tokio::time::{sleep, timeout};

use crate::postgres::support::{
    MINUTE, SOON, Tables, acquiring, connect, extend, is_refused, over_pool, pool, release,
    request, shared, stage, take, turn, until, waiters,
};

/// As many contenders as there are connections hang in the server, and more wait for a connection: a holder extends
/// and releases its lock meanwhile.
#[tokio::test]
async fn contenders_that_hang_leave_a_connection_to_holders() -> Result<()> {
    for connections in [2, 4] {
        let (tables, backend, admin) = stage(connections).await;
        let options = tables.options().with_statement_timeout(MINUTE);
        let backend = over_pool(backend.pool().clone(), options);
        let held = take(&backend, "held").await;
        let counted = take(&backend, "counted").await;
        let mut other = connect(&shared().url()).await;
        let turn = turn(&mut other, "hanging").await?;
        let contenders: Vec<_> =
            (0..2 * connections).map(|_| acquiring(&backend, "hanging")).collect();
        waiters(&admin, &tables.locks, i64::try_from(connections)? - 1).await;
        for _ in 0..10 {
            extend(&backend, held.lock_id).await?;
        }
        release(&backend, held.lock_id).await?;
        let counted = ReleaseRequest::new(counted.lock_id)
            .with_counter_at_least(Key::new("counted")?, Fence::new(9)?)?;
        ensure!(backend.release(counted).await?.is_released());
        contenders.iter().for_each(tokio::task::JoinHandle::abort);
        turn.rollback().await?;
    }
    Ok(())
}

/// More holders extend than there are connections, and hang: another caller takes a lock meanwhile.
#[tokio::test]
async fn extends_that_hang_leave_a_connection_to_contenders() -> Result<()> {
    let (tables, backend, admin) = stage(4).await;
    let options = tables.options().with_statement_timeout(MINUTE).with_pool_wait_timeout(MINUTE);
    let backend = over_pool(backend.pool().clone(), options);
    let mut held = Vec::new();
    for number in 0..6 {
        held.push(take(&backend, &format!("held {number}")).await.lock_id);
    }
    let mut other = connect(&shared().url()).await;
    let rows = other.transaction().await?;
    rows.execute(&format!("SELECT FROM {} FOR UPDATE", tables.locks), &[]).await?;
    let extends = held.into_iter().map(|lock_id| {
        let backend = backend.clone();
        tokio::spawn(async move { extend(&backend, lock_id).await })
    });
    let extends: Vec<_> = extends.collect();
    waiters(&admin, &tables.locks, 3).await;
    ensure!(timeout(SOON, backend.acquire(request("free", MINUTE))).await??.is_acquired());
    rows.rollback().await?;
    for extend in extends {
        extend.await??;
    }
    Ok(())
}

/// One contender hangs on the only connection, and many wait for it: a holder that comes last is the next.
#[tokio::test]
async fn a_holder_is_served_before_the_contenders_that_came_earlier() -> Result<()> {
    let (tables, backend, admin) = stage(1).await;
    let options = tables.options().with_statement_timeout(MINUTE).with_pool_wait_timeout(MINUTE);
    let backend = over_pool(backend.pool().clone(), options);
    let held = take(&backend, "held").await;
    let (mut first, mut others) = (connect(&shared().url()).await, connect(&shared().url()).await);
    let (first, others) =
        (turn(&mut first, "the first hangs").await?, turn(&mut others, "the others hang").await?);
    let contender = acquiring(&backend, "the first hangs");
    waiters(&admin, &tables.locks, 1).await;
    let contenders: Vec<_> = (0..20).map(|_| acquiring(&backend, "the others hang")).collect();
    sleep(Duration::from_millis(100)).await;
    let holder = tokio::spawn({
        let backend = backend.clone();
        async move { extend(&backend, held.lock_id).await }
    });
    until("a caller at the pool", async || Ok(backend.pool().status().waiting > 0)).await?;
    first.rollback().await?;
    holder.await?.context("a contender came first, and hangs")?;
    ensure!(contender.await??.is_acquired());
    contenders.iter().for_each(tokio::task::JoinHandle::abort);
    others.rollback().await?;
    Ok(())
}

/// An attempt on a held key does not wait: not for the key's advisory lock, its row or its counter.
#[tokio::test]
async fn contenders_wait_for_nothing() -> Result<()> {
    let (tables, backend, mut other) = stage(1).await;
    let _ = take(&backend, "key").await;
    let everything = other.transaction().await?;
    let Tables { locks, fences } = &tables;
    let sql = format!(
        "SELECT pg_advisory_xact_lock(hashtext('key'));
         SELECT FROM {locks} FOR UPDATE; SELECT FROM {fences} FOR UPDATE"
    );
    everything.batch_execute(&sql).await?;
    for _ in 0..20 {
        ensure!(is_refused(&backend, "key").await);
    }
    Ok(())
}

/// A pool without a free connection is `RateLimited`, after the configured wait.
#[tokio::test]
async fn an_exhausted_pool_is_rate_limited() -> Result<()> {
    let tables = Tables::made().await;
    let options = tables.options().with_pool_wait_timeout(Duration::from_millis(100));
    let pool = pool(&shared().url(), 1);
    let backend = over_pool(pool.clone(), options);
    let patient = over_pool(pool, tables.options().with_pool_wait_timeout(MINUTE));
    let borrowed = backend.pool().get().await?;
    for error in [
        timeout(SOON, backend.acquire(request("key", MINUTE))).await?.err(),
        timeout(SOON, backend.lookup(LookupRequest::by_key("key")?)).await?.err(),
    ] {
        let error = error.context("no connection")?;
        ensure!(error.code() == ErrorCode::RateLimited, "{error}");
        ensure!(error.is_retryable() && !error.is_outcome_unknown());
    }
    drop(borrowed);
    let lock = take(&patient, "key").await;
    // A connection taken out of the pool is replaced.
    drop(Object::take(backend.pool().get().await?));
    release(&patient, lock.lock_id).await
}
