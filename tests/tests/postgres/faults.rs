//! Connections that are cut, ended and forgotten.

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_postgres::{ExtendResult, LockBackend as _, LockId, PostgresBackend, ReleaseResult};
use syncguard_test_services::proxy::{FaultProxy, ReplyCut};

use crate::postgres::support::{
    MINUTE, Tables, acquiring, connect, extend, extending, is_quiet, open, over, pin, release,
    releasing, request, settles, shared, stage, take, turn, url_of, waiters,
};

/// The answer to an operation is cut after each possible number of bytes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reply_is_cut_at_every_byte() -> Result<()> {
    let tables = Tables::fresh();
    let direct = tables.backend(1).await;
    let admin = connect(&shared().url()).await;
    let proxy = FaultProxy::start(shared().port())?;
    // One connection, which has all statements prepared, so the next reply is the intended one.
    let backend = over(&url_of(proxy.port()), 1, tables.options());
    for operation in ["acquire", "extend", "release", "lookup"] {
        let is_sent_once = ["extend", "release"].contains(&operation);
        let (mut length, mut unknown) = (0, 0);
        loop {
            let key = format!("{operation} {length}");
            warm(&backend).await?;
            let held = match operation {
                "acquire" => LockId::generate()?,
                _ => take(&backend, &key).await.lock_id,
            };
            let before = proxy.counters().cuts;
            proxy.set_reply_cut(ReplyCut::Once(length));
            let result = match operation {
                // The resent acquire finds its own lock, and uses up no second fence.
                "acquire" => {
                    let lock = backend.acquire(request(&key, MINUTE).with_lock_id(held)).await;
                    lock.map(|it| it.acquired().is_some_and(|lock| lock.fence.get() == 1))
                }
                "extend" => {
                    let extended = backend.extend(ExtendRequest::new(held, MINUTE)?).await;
                    extended.map(ExtendResult::is_extended)
                }
                "release" => {
                    let released = backend.release(ReleaseRequest::new(held)).await;
                    released.map(ReleaseResult::is_released)
                }
                _ => backend.lookup(LookupRequest::by_key(&key)?).await.map(|it| it.is_some()),
            };
            proxy.set_reply_cut(ReplyCut::Never);
            let cut = proxy.counters().cuts > before;
            match result {
                Ok(is_done) => ensure!(is_done, "{operation} cut at {length}"),
                Err(error) => {
                    ensure!(is_sent_once && error.is_outcome_unknown(), "{length}: {error:?}");
                    unknown += 1;
                }
            }
            if operation != "release" {
                // Also on a connection that breaks after the whole reply. Another client does this: an acquire that
                // was sent twice gets a clean-up after its release, and those replies must not be cut.
                let releases = if operation == "acquire" { &direct } else { &backend };
                let release = releases.release(ReleaseRequest::new(held)).await?;
                ensure!(release.is_released(), "{operation} cut at {length}: {release:?}");
            }
            settles(&admin, &tables).await?;
            if !cut {
                // The reply was shorter, so all its lengths have been tested.
                break;
            }
            length += 1;
        }
        ensure!((30..1000).contains(&length), "{operation}: a reply of {length} bytes");
        // Known only if the whole reply came.
        // On a busy machine the driver may have read enough before it notices the cut.
        let known = length - unknown;
        ensure!(!is_sent_once || (1..8).contains(&known), "{unknown} of {length} unknown");
    }
    is_quiet(&admin, &tables).await
}

/// Every statement once on the pool's only connection.
async fn warm(backend: &PostgresBackend) -> Result<()> {
    let lock = take(backend, "warm").await;
    extend(backend, lock.lock_id).await?;
    ensure!(backend.lookup(LookupRequest::by_key("warm")?).await?.is_some());
    release(backend, lock.lock_id).await?;
    Ok(())
}

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
