//! Statements that the server carries out after their sender has moved on.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_postgres::{AutoExtend, ErrorCode, LockBackend as _, LockConfig, acquire};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::postgres::support::{
    MINUTE, Tables, acquiring, connect, is_quiet, is_refused, open, over, over_pool, pool, request,
    shared, take, turn, until, url_of, waiters,
};

/// An acquire that waits in the server until its sender has given it up, without any further message to the server.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acquire_whose_turn_comes_late_takes_nothing() -> Result<()> {
    const BOUND: Duration = Duration::from_secs(2);
    let tables = Tables::made().await;
    let mut admin = connect(&shared().url()).await;
    let watch = connect(&shared().url()).await;
    let proxy = FaultProxy::start(shared().port())?;
    // The role's own lock timeout stays, however long it is.
    let url = format!("{}?options=-c%20lock_timeout%3D60s", url_of(proxy.port()));
    let connected = pool(&url, 1);
    let _ = take(&over_pool(connected.clone(), tables.options()), "prepared").await;
    let options = tables.options().with_statement_timeout(BOUND);
    let backend = over_pool(connected, options);
    let _ = take(&backend, "clock").await;
    // No cancellation will arrive: that needs another connection.
    proxy.refuse();

    let turn = turn(&mut admin, "turn").await?;
    let sent = Instant::now();
    let acquire = acquiring(&backend, "turn");
    waiters(&watch, &tables.locks, 1).await;
    ensure!(acquire.await?.is_err());
    sleep((BOUND * 2).saturating_sub(sent.elapsed())).await;
    waiters(&watch, &tables.locks, 1).await;
    turn.rollback().await?;
    is_quiet(&watch, &tables).await?;
    ensure!(tables.counter(&watch, "turn").await == 0, "it took a lock");
    Ok(())
}

/// A crowd of acquires that the server does not answer, because it is stopped, or because the table is locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_server_that_was_late_for_all_leaves_no_orphans() -> Result<()> {
    const KEYS: usize = 20;
    const SHORT: Duration = Duration::from_millis(500);
    let mut server = PostgresServer::builder().config("fsync = off").start()?;
    let tables = Tables::fresh();
    let options = tables.options().with_statement_timeout(SHORT).with_pool_wait_timeout(SHORT);
    drop(tables.backend_at(&server.url(), 1).await);
    let backend = over(&server.url(), KEYS + 1, options);
    let admin = connect(&server.url()).await;
    drop(open(&backend, KEYS + 1).await?);
    until("the server's clock", async || {
        Ok(backend.acquire(request("clock", MINUTE)).await.is_ok())
    })
    .await?;
    for is_stopped in [true, false] {
        let lock = format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", tables.locks);
        if is_stopped {
            server.pause()?;
        } else {
            admin.batch_execute(&lock).await?;
        }
        let mut tasks = JoinSet::new();
        for key in 0..KEYS {
            let backend = backend.clone();
            tasks.spawn(async move {
                let config = LockConfig::new(format!("orphan {key}")).with_ttl(MINUTE * 60);
                acquire(&backend, config).await.map(drop)
            });
        }
        while let Some(result) = tasks.join_next().await {
            let code = result?.expect_err("nobody answers").code();
            ensure!(code != ErrorCode::AcquisitionTimeout, "a hang is not contention");
        }
        sleep(3 * SHORT).await;
        if is_stopped {
            server.resume()?;
        } else {
            admin.batch_execute("ROLLBACK").await?;
        }
        sleep(2 * SHORT).await;
        let sql = format!("SELECT count(*) FROM {} WHERE key LIKE 'orphan %'", tables.locks);
        let orphans: i64 = admin.query_one(&sql, &[]).await?.get(0);
        ensure!(orphans == 0, "{orphans} of {KEYS} keys are orphans");
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_release_in_a_short_outage_is_not_late_for_long() -> Result<()> {
    let mut server = PostgresServer::builder().config("fsync = off").start()?;
    let tables = Tables::fresh();
    let options = tables
        .options()
        .with_statement_timeout(Duration::from_secs(2))
        .with_dispose_timeout(MINUTE);
    drop(tables.backend_at(&server.url(), 1).await);
    let backend = over(&server.url(), 4, options);
    let config = |key: &str| LockConfig::new(key).with_ttl(60 * MINUTE);
    let released = acquire(&backend, config("released")).await?;
    let dropped = acquire(&backend, config("dropped")).await?;
    let kept = acquire(&backend, config("kept").with_auto_extend(AutoExtend::new())).await?;
    server.kill()?;
    released.release().await.unwrap_err();
    drop((dropped, kept));
    sleep(Duration::from_millis(1_200)).await;
    server.restart()?;
    let direct = tables.backend_at(&server.url(), 1).await;
    for key in ["released", "dropped", "kept"] {
        until(key, async || Ok(!is_refused(&direct, key).await)).await?;
    }
    Ok(())
}
