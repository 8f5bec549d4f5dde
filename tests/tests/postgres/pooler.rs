//! Poolers' answers for a server that is away or busy.

use std::time::Duration;

use crate::support::warnings::Warnings;
use anyhow::{Result, bail, ensure};
use syncguard_postgres::contract::{
    AcquireResult, ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest,
};
use syncguard_postgres::tokio_postgres::{self, NoTls};
use syncguard_postgres::{
    ErrorCode, ExtendResult, LockBackend as _, LockError, LockId, PostgresBackend, PostgresOptions,
    ReleaseResult,
};
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use tokio::task::JoinSet;

use crate::postgres::support::{MINUTE, SOON, connect, request, take, until};

async fn through(
    pooler: &PgBouncer,
    statement_timeout: Duration,
) -> Result<PostgresBackend, LockError> {
    let options = PostgresOptions::new()
        .with_unprepared_statements(true)
        .with_statement_timeout(statement_timeout);
    PostgresBackend::connect_with(&pooler.url(), options).await
}

/// PgBouncer itself answered, so no statement was carried out.
#[track_caller]
fn expect(error: &LockError, code: ErrorCode, setting: &str) {
    assert_eq!(error.code(), code, "{error:?}");
    assert!(!error.is_outcome_unknown() && error.is_retryable(), "{error:?}");
    for word in ["PgBouncer", setting] {
        assert!(error.message().contains(word), "{error}");
    }
}

/// After a failed log-in to the server, PgBouncer does not try again for a while, and says so.
#[tokio::test]
async fn a_server_that_pgbouncer_cannot_log_in_to() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let pooler = PgBouncer::start(&server, PoolMode::Transaction)?;
    let backend = through(&pooler, Duration::from_secs(2)).await?;
    let patient = through(&pooler, MINUTE).await?;
    patient.setup_schema().await?;
    let held = take(&patient, "held").await;
    server.kill()?;

    // Until PgBouncer has noticed, all clients wait.
    let lookup = async || {
        backend.lookup(LookupRequest::by_key("held").expect("a key")).await.map(drop).unwrap_err()
    };
    until(
        "PgBouncer's notice",
        async || Ok(lookup().await.code() == ErrorCode::ServiceUnavailable),
    )
    .await?;
    for error in [
        backend.acquire(request("k", MINUTE)).await.map(drop).unwrap_err(),
        backend.extend(ExtendRequest::new(held.lock_id, MINUTE)?).await.map(drop).unwrap_err(),
        backend.release(ReleaseRequest::new(held.lock_id)).await.map(drop).unwrap_err(),
        lookup().await,
        through(&pooler, MINUTE).await.map(drop).unwrap_err(),
    ] {
        expect(&error, ErrorCode::ServiceUnavailable, "server_login_retry");
    }

    // As the guide says: with 1, locks work again within about a second after the server.
    pooler.admin("SET server_login_retry = 1")?;
    server.restart()?;
    is_released(&backend, held.lock_id).await?;
    // No failed statement was carried out.
    ensure!(take(&patient, "k").await.fence.get() == 1);
    Ok(())
}

/// Releases a lock as soon as the server is there again.
async fn is_released(backend: &PostgresBackend, lock_id: LockId) -> Result<()> {
    until("a release", async || {
        let released = backend.release(ReleaseRequest::new(lock_id)).await;
        ensure!(released.as_ref().err().is_none_or(LockError::is_retryable), "{released:?}");
        Ok(released.is_ok())
    })
    .await
}

/// The log-in works, because PgBouncer answers it; the first statement hangs.
#[tokio::test]
async fn connecting_ends_when_the_server_behind_hangs() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let pooler = PgBouncer::start(&server, PoolMode::Transaction)?;
    drop(through(&pooler, MINUTE).await?);
    server.pause()?;
    let connecting = through(&pooler, Duration::from_millis(300));
    let error = tokio::time::timeout(SOON, connecting).await?.unwrap_err();
    ensure!(error.code() == ErrorCode::NetworkTimeout && !error.is_outcome_unknown(), "{error:?}");
    server.resume()
}

/// However many acquires fail while the server hangs behind PgBouncer, their clean-up logs a few lines and not one
/// for each try, and it ends when the server goes on.
#[tokio::test]
async fn late_acquires_behind_a_pooler_are_a_few_warnings() -> Result<()> {
    const CROWD: usize = 1_000;
    let warnings = Warnings::new();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let mut server = PostgresServer::start()?;
    let pooler = PgBouncer::start(&server, PoolMode::Transaction)?;
    // The crowd fails once, after this time. The clean-up has it for each statement, on however busy a machine.
    let bound = Duration::from_secs(5);
    let options = PostgresOptions::new()
        .with_unprepared_statements(true)
        .with_statement_timeout(bound)
        .with_pool_wait_timeout(bound);
    let backend = PostgresBackend::connect_with(&pooler.url(), options).await?;
    backend.setup_schema().await?;
    // The server's time is known from the first answer on.
    until("an answer", async || Ok(backend.acquire(request("first", MINUTE)).await.is_ok()))
        .await?;
    let before = warnings.count();

    server.pause()?;
    let mut crowd = JoinSet::new();
    for number in 0..CROWD {
        let (backend, request) = (backend.clone(), request(&format!("k{number}"), MINUTE));
        crowd.spawn(async move { backend.acquire(request).await.map(drop) });
    }
    let errors = crowd.join_all().await.into_iter().map(Result::unwrap_err);
    let unknown = errors.filter(LockError::is_outcome_unknown).count();
    ensure!(unknown >= 5, "{unknown} of {CROWD} were sent");
    server.resume()?;
    let clean_up = backend.client_state();
    until("the clean-up", async || Ok(clean_up.pending_releases() == 0)).await?;
    let said = warnings.count() - before;
    ensure!(said <= 20, "{said} warnings of {CROWD} failed acquires, {unknown} of them unknown");
    Ok(())
}

/// Before 1.21, PgBouncer gives a server connection to the next client while the answer to a request is still
/// to come, if the client that has sent it is gone and an earlier request of that client was answered.
#[tokio::test]
async fn the_answer_to_another_client_is_not_taken_for_a_lock() -> Result<()> {
    let server = PostgresServer::start()?;
    let one_session = ["default_pool_size = 1"];
    let pooler = PgBouncer::start_with(&server, PoolMode::Transaction, &one_session)?;
    let direct = PostgresBackend::connect(&server.url()).await?;
    direct.setup_schema().await?;
    let ours = through(&pooler, Duration::from_secs(5)).await?;
    let before = take(&ours, "ours").await;
    let record = "NULL::text AS key, NULL::text AS lock_id, NULL::bigint AS expires_at_ms, NULL::bigint AS \
                  acquired_at_ms, NULL::text AS fence, NULL::text AS user_key, NULL::bigint AS now_ms, 7::bigint AS \
                  judged_at_ms";
    let acquired = format!(
        "7::bigint AS taken_expires_at_ms, '000000000000007' AS taken_fence, NULL::bigint AS counter, NULL::text AS \
         obstacle, NULL::text AS holder, {record}"
    );
    let extended = format!(
        "7::bigint AS extended_expires_at_ms, NULL::bigint AS held_expires_at_ms, {record}"
    );
    let released = format!("true AS released, {record}");
    for round in 0..3_u64 {
        let key = format!("k{round}");
        let held = take(&direct, &key).await;
        leave_an_answer_behind(&pooler, &acquired, before.lock_id).await?;
        match ours.acquire(request(&key, MINUTE)).await {
            Ok(AcquireResult::Busy(_) | AcquireResult::Refused(_)) => {}
            Ok(AcquireResult::Acquired(second)) => bail!("held by {held:?} and {second:?}"),
            Err(error) => ensure!(error.is_outcome_unknown(), "{error:?}"),
        }
        leave_an_answer_behind(&pooler, &extended, before.lock_id).await?;
        match ours.extend(ExtendRequest::new(held.lock_id, MINUTE)?).await {
            Ok(ExtendResult::Extended { expires_at }) => ensure!(expires_at.as_millis() != 7),
            Ok(result) => bail!("{result:?}"),
            Err(error) => ensure!(error.is_outcome_unknown(), "{error:?}"),
        }
        leave_an_answer_behind(&pooler, &released, before.lock_id).await?;
        match ours.release(ReleaseRequest::new(held.lock_id)).await {
            Ok(ReleaseResult::Released) => ensure!(!is_locked(&direct, &key).await?),
            Ok(result) => bail!("{result:?}"),
            Err(error) => ensure!(error.is_outcome_unknown(), "{error:?}"),
        }
    }
    Ok(())
}

async fn is_locked(backend: &PostgresBackend, key: &str) -> Result<bool> {
    Ok(backend.is_locked(IsLockedRequest::new(key)?).await?)
}

/// A client sends two requests at once and is gone when the first is answered. The answer to the second has these
/// columns, and this lock id behind them.
async fn leave_an_answer_behind(pooler: &PgBouncer, columns: &str, lock_id: LockId) -> Result<()> {
    let (client, connection) = tokio_postgres::connect(&pooler.url(), NoTls).await?;
    let connection = tokio::spawn(connection);
    let answer = format!("SELECT {columns}, '{}' AS asked FROM pg_sleep(0.3)", lock_id.expose());
    let second = client.query_typed(&answer, &[]);
    tokio::pin!(second);
    // Both requests are sent; the first is answered.
    tokio::select! {
        biased;
        first = client.query_typed("SELECT 1", &[]) => drop(first?),
        _ = &mut second => bail!("it was not late"),
    }
    connection.abort();
    let _ = connection.await;
    Ok(())
}

/// All of PgBouncer's connections to the server are busy.
#[tokio::test]
async fn a_server_connection_that_never_becomes_free() -> Result<()> {
    let server = PostgresServer::start()?;
    let pooler = PgBouncer::start(&server, PoolMode::Transaction)?;
    let backend = through(&pooler, MINUTE).await?;
    backend.setup_schema().await?;
    pooler.admin("SET default_pool_size = 1")?;
    pooler.admin("SET query_wait_timeout = 1")?;
    let mut busy = connect(&pooler.url()).await;
    let transaction = busy.transaction().await?;
    transaction.simple_query("SELECT 1").await?;
    let error = backend.acquire(request("k", MINUTE)).await.map(drop).unwrap_err();
    expect(&error, ErrorCode::RateLimited, "query_wait_timeout");
    transaction.rollback().await?;
    ensure!(take(&backend, "k").await.fence.get() == 1);
    Ok(())
}

mod long {
    use syncguard_postgres::{LockConfig, acquire};
    use syncguard_test_services::postgres::PgPool;

    use super::*;

    /// pgpool-II has the SQLSTATE of a defect for a server that is gone.
    #[tokio::test]
    async fn a_server_that_dies_behind_pgpool() -> Result<()> {
        let mut server = PostgresServer::start()?;
        let standby = server.standby()?;
        let pooler = PgPool::start(&server, &standby)?;
        let backend = PostgresBackend::connect(&pooler.url()).await?;
        backend.setup_schema().await?;
        let held = take(&backend, "held").await;
        server.kill()?;

        let connected = PostgresBackend::connect(&pooler.url()).await.map(drop).unwrap_err();
        ensure!(!connected.is_outcome_unknown(), "{connected:?}");
        ensure!(connected.message().contains("pgpool-II"), "{connected:?}");
        for error in [
            connected,
            backend.acquire(request("k", MINUTE)).await.map(drop).unwrap_err(),
            backend.extend(ExtendRequest::new(held.lock_id, MINUTE)?).await.map(drop).unwrap_err(),
            backend.release(ReleaseRequest::new(held.lock_id)).await.map(drop).unwrap_err(),
            backend.lookup(LookupRequest::by_key("k")?).await.map(drop).unwrap_err(),
        ] {
            ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error:?}");
            ensure!(error.is_retryable(), "{error:?}");
        }
        let config = LockConfig::new("ridden").with_ttl(MINUTE).with_ride_out(SOON);
        let rides = tokio::spawn({
            let backend = backend.clone();
            async move { acquire(&backend, config).await }
        });
        server.restart()?;
        rides.await??.release().await?;
        is_released(&backend, held.lock_id).await?;
        ensure!(take(&backend, "k").await.fence.get() == 1);
        Ok(())
    }
}
