//! The cancellation of statements, and the fate of their connections.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use syncguard_postgres::contract::IsLockedRequest;
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{ErrorCode, LockBackend as _, LockError, PostgresBackend};
use syncguard_test_services::postgres::{PgBouncer, PoolMode};
use syncguard_test_services::proxy::FaultProxy;

use super::passed::{self, Passed};
use super::stage::{Fault, LIMIT, STATEMENT, Stage};
use crate::postgres::support::{pool, request, session};

/// For sessions without limits of their own.
const PATIENT: &str = "options=-c%20lock_timeout%3D60s%20-c%20statement_timeout%3D60s";

/// A read that will be given up.
async fn give_up(backend: &PostgresBackend) -> Result<()> {
    let started = Instant::now();
    match backend.is_locked(IsLockedRequest::new("key")?).await {
        Ok(_) => bail!("an answer"),
        Err(error) => ensure!(error.code() == ErrorCode::NetworkTimeout, "{error:?}"),
    }
    ensure!(started.elapsed() < LIMIT, "given up after {:?}", started.elapsed());
    Ok(())
}

/// Waits until no session of ours waits for the table, which stays locked. Only for a while if that is not expected.
async fn cancelled(stage: &Stage, expected: bool) -> Result<bool> {
    let limit = if expected { LIMIT } else { STATEMENT };
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
    let started = Instant::now();
    while started.elapsed() < limit {
        if stage.admin.query_one(sql, &[]).await?.get::<_, i64>(0) == 0 {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(false)
}

/// Waits until a session has ended.
async fn has_ended(stage: &Stage, process: i32) -> Result<bool> {
    let sql = "SELECT count(*) FROM pg_stat_activity WHERE pid = $1";
    let started = Instant::now();
    while started.elapsed() < LIMIT {
        if stage.admin.query_one(sql, &[&process]).await?.get::<_, i64>(0) == 0 {
            return Ok(true);
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(false)
}

async fn ours(url: &str, stage: &Stage) -> Result<PostgresBackend, LockError> {
    let options = stage.options();
    PostgresBackend::connect_with(url, options.with_pool_size(1)).await
}

/// The session of a statement that was cancelled is replaced, because a late request could hit its next statement.
#[tokio::test]
async fn a_late_statement_leaves_its_session_behind() -> Result<()> {
    let stage = Stage::set().await?;
    let theirs = PostgresBackend::from_pool(pool(&stage.url(), 1), stage.options())
        .expect("options in range");
    let ours = ours(&stage.url(), &stage).await?;
    let cases =
        [(&theirs, Fault::TableLocked), (&theirs, Fault::StandbyAway), (&ours, Fault::StandbyAway)];
    for (backend, fault) in cases {
        let before = session(&*backend.pool().get().await?).await;
        stage.strike(fault).await?;
        let error = backend.acquire(request("key", STATEMENT)).await.err();
        let error = error.with_context(|| format!("{fault:?}: an answer"))?;
        ensure!(error.code() == ErrorCode::NetworkTimeout, "{fault:?}: {error:?}");
        ensure!(error.is_outcome_unknown() == matches!(fault, Fault::StandbyAway), "{error:?}");
        // The fault goes on.
        let connection = tokio::time::timeout(LIMIT, backend.pool().get()).await??;
        ensure!(session(&connection).await != before, "{fault:?}: the same session");
        ensure!(has_ended(&stage, before).await?, "{fault:?}: the session is still there");
        drop(connection);
        stage.heal(fault).await?;
    }
    Ok(())
}

/// With or without encryption, by the means of the pool.
#[tokio::test]
async fn a_late_statement_is_cancelled_as_its_pool_connects() -> Result<()> {
    let stage = Stage::set().await?;
    let connector = Passed::default();
    let encrypted = passed::pool(&stage.url(), 1)?;
    let options = stage.options();
    let told = options.clone().with_cancel_requests(NoTls);
    let told_tls = options.clone().with_cancel_requests(connector.clone());
    let patient = format!("{}?{PATIENT}", stage.url());
    let cases = [
        ("a pool of ours", ours(&patient, &stage).await?, true),
        (
            "a user's pool",
            PostgresBackend::from_pool(pool(&stage.url(), 1), options.clone())
                .expect("options in range"),
            true,
        ),
        (
            "a user's pool, told",
            PostgresBackend::from_pool(pool(&stage.url(), 1), told).expect("options in range"),
            true,
        ),
        (
            "an encrypted pool",
            PostgresBackend::from_pool(encrypted.clone(), options).expect("options in range"),
            false,
        ),
        (
            "an encrypted pool, told",
            PostgresBackend::from_pool(encrypted, told_tls).expect("options in range"),
            true,
        ),
    ];
    for (name, backend, expected) in cases {
        // Opens a connection first, so that this is not part of the measurement.
        drop(backend.pool().get().await?);
        stage.strike(Fault::TableLocked).await?;
        give_up(&backend).await.context(name)?;
        ensure!(cancelled(&stage, expected).await? == expected, "{name}");
        stage.heal(Fault::TableLocked).await?;
        let connection = tokio::time::timeout(LIMIT, backend.pool().get()).await;
        drop(connection.with_context(|| format!("{name}: the connection"))??);
    }
    ensure!(connector.count() > 0, "no request was encrypted");
    Ok(())
}

/// Our own TLS.
#[tokio::test]
async fn a_late_statement_is_cancelled_over_tls() -> Result<()> {
    let (server, root, _) = crate::postgres::tls::server()?;
    let url = server.url().replace("127.0.0.1", "localhost");
    let options = syncguard_postgres::PostgresOptions::new().with_statement_timeout(STATEMENT);
    let options = options.with_pool_size(1).with_root_certificate(root);
    let url = format!("{url}?sslmode=require&{PATIENT}");
    let backend = PostgresBackend::connect_with(&url, options).await?;
    backend.setup_schema().await?;
    let before = session(&*backend.pool().get().await?).await;
    let locker = crate::postgres::support::connect(&server.url()).await;
    locker.batch_execute("BEGIN; LOCK TABLE syncguard_locks IN ACCESS EXCLUSIVE MODE").await?;
    give_up(&backend).await?;
    let connection = tokio::time::timeout(LIMIT, backend.pool().get()).await??;
    let after = session(&connection).await;
    ensure!(after != before, "the same session");
    let encrypted = server.psql(&format!("SELECT ssl FROM pg_stat_ssl WHERE pid = {after}"))?;
    ensure!(encrypted == "t");
    Ok(())
}

/// PgBouncer 1.18 crashes on a request of the driver, so a pooler gets none unless the user says so.
#[tokio::test]
async fn nothing_is_cancelled_through_a_pooler_unasked() -> Result<()> {
    let stage = Stage::set().await?;
    for is_ours in [false, true] {
        let pooler = PgBouncer::start(&stage.server, PoolMode::Transaction)?;
        let options = stage.options().with_unprepared_statements(true);
        let backend = if is_ours {
            PostgresBackend::connect_with(&pooler.url(), options.with_pool_size(1)).await?
        } else {
            PostgresBackend::from_pool(pool(&pooler.url(), 1), options).expect("options in range")
        };
        drop(backend.pool().get().await?);
        for _ in 0..3 {
            stage.strike(Fault::TableLocked).await?;
            give_up(&backend).await.with_context(|| format!("ours: {is_ours}"))?;
            ensure!(!cancelled(&stage, false).await?, "ours: {is_ours}");
            stage.heal(Fault::TableLocked).await?;
            let connection = tokio::time::timeout(LIMIT, backend.pool().get()).await;
            drop(connection.with_context(|| format!("ours: {is_ours}: the connection"))??);
            ensure!(pooler.psql("SELECT 1")? == "1");
        }
    }
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
            ours(&format!("{url}?{PATIENT}"), &stage).await?
        } else {
            PostgresBackend::from_pool(pool(&url, 1), stage.options()).expect("options in range")
        };
        drop(backend.pool().get().await?);
        for _ in 0..3 {
            stage.strike(Fault::TableLocked).await?;
            let reader = tokio::spawn({
                let backend = backend.clone();
                async move { give_up(&backend).await }
            });
            tokio::time::sleep(STATEMENT * 9 / 10).await;
            proxy.set_latency(WAY, Duration::ZERO);
            reader.await??;
            // The cancellation is on the network, and the table becomes free.
            tokio::time::sleep(WAY / 2).await;
            stage.heal(Fault::TableLocked).await?;
            proxy.set_latency(Duration::ZERO, Duration::ZERO);
            let connection = tokio::time::timeout(LIMIT, backend.pool().get()).await??;
            connection.batch_execute("SELECT pg_sleep(0.2)").await.context("cancelled")?;
        }
    }
    Ok(())
}
