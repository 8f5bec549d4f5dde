//! Connections that are ended and forgotten.

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::LockBackend as _;
use syncguard_postgres::contract::{ExtendRequest, IsLockedRequest, LookupRequest};
use syncguard_test_services::proxy::FaultProxy;

use crate::postgres::support::{
    MINUTE, Tables, acquiring, connect, extend, extending, open, over, pin, release, releasing,
    request, settles, shared, stage, take, turn, url_of, waiters,
};

/// Connections die in the pool silently, as behind a firewall that forgets them. However many they are, no caller
/// sees an error.
#[tokio::test]
async fn connections_that_died_in_the_pool_are_survived() -> Result<()> {
    for operation in ["acquire", "contended acquire", "extend", "release", "is_locked", "lookup"] {
        // Connections that died before their first statement, and after all statements.
        for known in [false, true] {
            let context = || format!("{operation}, {known}");
            survives(operation, known).await.with_context(context)?;
        }
    }
    Ok(())
}

async fn survives(operation: &str, known: bool) -> Result<()> {
    const CONNECTIONS: usize = 5;
    let tables = Tables::made().await;
    let proxy = FaultProxy::start(shared().port())?;
    let backend = over(&url_of(proxy.port()), CONNECTIONS, tables.options());
    let held = take(&backend, "held").await.lock_id;
    backend.pool().retain(|_, _| known);
    drop(open(&backend, CONNECTIONS).await?);
    for _ in 0..if known { CONNECTIONS } else { 0 } {
        // By turns, all connections get all statements.
        let lock = take(&backend, "free").await;
        for _ in 1..CONNECTIONS {
            ensure!(backend.is_locked(IsLockedRequest::new("free")?).await?);
        }
        for _ in 0..CONNECTIONS {
            extend(&backend, lock.lock_id).await?;
        }
        release(&backend, lock.lock_id).await?;
    }
    let before = proxy.counters().connections;
    proxy.forget();
    match operation {
        "acquire" => drop(take(&backend, "free").await),
        "contended acquire" => match backend.acquire(request("held", MINUTE)).await {
            Ok(result) => ensure!(result.is_busy()),
            // The first sending may still be carried out when the key is free.
            Err(error) => ensure!(known && error.is_outcome_unknown(), "{error:?}"),
        },
        "extend" => {
            let mut lost = 0;
            let extended = loop {
                match backend.extend(ExtendRequest::new(held, MINUTE)?).await {
                    // The statement is sent once over each connection.
                    Err(error) if error.is_outcome_unknown() => lost += 1,
                    extended => break extended?,
                }
            };
            ensure!(extended.is_extended());
            ensure!(lost == if known { CONNECTIONS } else { 0 }, "{lost}");
        }
        "release" => release(&backend, held).await?,
        "is_locked" => ensure!(backend.is_locked(IsLockedRequest::new("held")?).await?),
        _ => ensure!(backend.lookup(LookupRequest::by_lock_id(held)).await?.is_some()),
    }
    ensure!(proxy.counters().connections == before + 1, "one new one");
    Ok(())
}

/// A session is terminated during a statement that waits: the statement is resent on another connection and succeeds.
/// An extend is not resent.
#[tokio::test]
async fn a_session_is_terminated_in_mid_statement() -> Result<()> {
    let (tables, backend, admin) = stage(2).await;
    let terminate = async || {
        waiters(&admin, &tables.locks, 1).await;
        let sql =
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE wait_event_type = 'Lock'
            AND query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid()";
        admin.execute(sql, &[&tables.locks]).await
    };
    let mut holder = connect(&shared().url()).await;
    let waited_for = turn(&mut holder, "key").await?;
    let acquire = acquiring(&backend, "key");
    terminate().await?;
    waiters(&admin, &tables.locks, 1).await;
    waited_for.commit().await?;
    let lock = acquire.await??.acquired().context("a free key")?;
    ensure!(lock.fence.get() == 1);

    let pinned = pin(&mut holder, &tables).await?;
    let extended = extending(&backend, lock.lock_id);
    terminate().await?;
    let error = extended.await?.expect_err("an extend is sent once");
    ensure!(error.is_outcome_unknown(), "{error:?}");
    pinned.rollback().await?;
    extend(&backend, lock.lock_id).await?;

    let pinned = pin(&mut holder, &tables).await?;
    let released = releasing(&backend, lock.lock_id);
    terminate().await?;
    waiters(&admin, &tables.locks, 1).await;
    pinned.rollback().await?;
    ensure!(released.await??.is_released());
    settles(&admin, &tables).await
}
