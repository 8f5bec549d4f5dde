//! The cancellation of statements, and the fate of their connections.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::IsLockedRequest;
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{ErrorCode, LockBackend as _, PostgresBackend, PostgresOptions};
use syncguard_test_services::postgres::{PgBouncer, PoolMode};
use syncguard_test_services::proxy::FaultProxy;
use tokio::time::{sleep, timeout};

use super::stage::{Fault, STATEMENT, Stage};
use crate::postgres::support::{SOON, connect, over, request, session, until};

/// For sessions without limits of their own.
const PATIENT: &str = "options=-c%20lock_timeout%3D60s%20-c%20statement_timeout%3D60s";

/// A read that will be given up.
async fn give_up(backend: &PostgresBackend) -> Result<()> {
    match backend.is_locked(IsLockedRequest::new("key")?).await {
        Ok(_) => bail!("an answer"),
        Err(error) => ensure!(error.code() == ErrorCode::NetworkTimeout, "{error:?}"),
    }
    Ok(())
}

/// Gives up a read that waits for the table, and checks whether the read is cancelled in the server. Once the table is
/// free, the pool has a connection again.
async fn give_up_and_see(
    stage: &Stage,
    backend: &PostgresBackend,
    is_cancelled: bool,
) -> Result<()> {
    // Opens a connection first, so that this is not part of the measurement.
    drop(backend.pool().get().await?);
    stage.strike(Fault::TableLocked).await?;
    give_up(backend).await?;
    if is_cancelled {
        until("the end of the statement", async || stage.nobody_waits().await).await?;
    } else {
        sleep(STATEMENT).await;
        ensure!(!stage.nobody_waits().await?, "it was cancelled");
    }
    stage.heal(Fault::TableLocked).await?;
    drop(timeout(SOON, backend.pool().get()).await.context("the connection")??);
    Ok(())
}

/// The session of a statement that was cancelled is replaced, because a late request could hit its next statement.
#[tokio::test]
async fn a_late_statement_leaves_its_session_behind() -> Result<()> {
    let stage = Stage::set().await?;
    let theirs = over(&stage.url(), 1, stage.options());
    let ours = stage.ours(&stage.url(), 1, STATEMENT).await?;
    // Each has a key of its own: what the one before may have taken is given back in the background.
    for (backend, fault, key, is_unknown) in [
        (&theirs, Fault::TableLocked, "first", false),
        (&theirs, Fault::StandbyAway, "second", true),
        (&ours, Fault::StandbyAway, "third", true),
    ] {
        let before = session(&*backend.pool().get().await?).await;
        stage.strike(fault).await?;
        let error = backend.acquire(request(key, STATEMENT)).await.err();
        let error = error.with_context(|| format!("{fault:?}: an answer"))?;
        ensure!(error.code() == ErrorCode::NetworkTimeout, "{fault:?}: {error:?}");
        ensure!(error.is_outcome_unknown() == is_unknown, "{fault:?}: {error:?}");
        // The fault goes on.
        let connection = timeout(SOON, backend.pool().get()).await??;
        ensure!(session(&connection).await != before, "{fault:?}: the same session");
        stage.ends(before).await?;
        drop(connection);
        stage.heal(fault).await?;
    }
    Ok(())
}

/// A pool without prepared statements leads to a pooler, which gets no request unless the user says so.
#[tokio::test]
async fn a_late_statement_is_cancelled_unless_there_is_a_pooler() -> Result<()> {
    let stage = Stage::set().await?;
    let url = stage.url();
    let patient = format!("{url}?{PATIENT}");
    let unprepared = || stage.options().with_unprepared_statements(true);
    let told = unprepared().with_cancel_requests(NoTls);
    for (name, backend, is_cancelled) in [
        ("a pool of ours", stage.ours(&patient, 1, STATEMENT).await?, true),
        ("a user's pool", over(&url, 1, stage.options()), true),
        ("a user's pool, unprepared", over(&url, 1, unprepared()), false),
        ("a user's pool, unprepared and told", over(&url, 1, told), true),
    ] {
        give_up_and_see(&stage, &backend, is_cancelled).await.context(name)?;
    }
    for is_ours in [false, true] {
        let pooler = PgBouncer::start(&stage.server, PoolMode::Transaction)?;
        let backend = if is_ours {
            PostgresBackend::connect_with(&pooler.url(), unprepared().with_pool_size(1)).await?
        } else {
            over(&pooler.url(), 1, unprepared())
        };
        give_up_and_see(&stage, &backend, false).await.context("a pooler")?;
        ensure!(pooler.psql("SELECT 1")? == "1");
    }
    Ok(())
}

/// Our own TLS.
#[tokio::test]
async fn a_late_statement_is_cancelled_over_tls() -> Result<()> {
    let (server, root, _) = crate::postgres::tls::server()?;
    let url = server.url().replace("127.0.0.1", "localhost");
    let options = PostgresOptions::new().with_statement_timeout(STATEMENT);
    let options = options.with_pool_size(1).with_root_certificate(root);
    let url = format!("{url}?sslmode=require&{PATIENT}");
    let backend = PostgresBackend::connect_with(&url, options).await?;
    backend.setup_schema().await?;
    let before = session(&*backend.pool().get().await?).await;
    let locker = connect(&server.url()).await;
    locker.batch_execute("BEGIN; LOCK TABLE syncguard_locks IN ACCESS EXCLUSIVE MODE").await?;
    give_up(&backend).await?;
    let connection = timeout(SOON, backend.pool().get()).await??;
    let after = session(&connection).await;
    ensure!(after != before, "the same session");
    let encrypted = server.psql(&format!("SELECT ssl FROM pg_stat_ssl WHERE pid = {after}"))?;
    ensure!(encrypted == "t");
    Ok(())
}

/// A cancellation that is slower than the answer ends no later statement.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_request_ends_no_other_statement() -> Result<()> {
    const WAY: Duration = Duration::from_millis(100);
    let stage = Stage::set().await?;
    for is_ours in [false, true] {
        let proxy = FaultProxy::start(stage.server.port())?;
        let (port, other) = (stage.server.port().to_string(), proxy.port().to_string());
        let url = stage.url().replace(&port, &other);
        let backend = if is_ours {
            stage.ours(&format!("{url}?{PATIENT}"), 1, STATEMENT).await?
        } else {
            over(&url, 1, stage.options())
        };
        drop(backend.pool().get().await?);
        for _ in 0..3 {
            stage.strike(Fault::TableLocked).await?;
            let slow = async {
                sleep(STATEMENT * 9 / 10).await;
                proxy.set_latency(WAY, Duration::ZERO);
            };
            let (given_up, ()) = tokio::join!(give_up(&backend), slow);
            given_up?;
            // The cancellation is on the network, and the table becomes free.
            sleep(WAY / 2).await;
            stage.heal(Fault::TableLocked).await?;
            proxy.set_latency(Duration::ZERO, Duration::ZERO);
            let connection = timeout(SOON, backend.pool().get()).await??;
            connection.batch_execute("SELECT pg_sleep(0.2)").await.context("cancelled")?;
        }
    }
    Ok(())
}
