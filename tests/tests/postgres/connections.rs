//! Connections that are silent, slow, or lead to a server that is no longer the primary.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ExtendRequest, ReleaseRequest};
use syncguard_postgres::{
    ErrorCode, LockBackend as _, LockError, LockId, PostgresBackend, PostgresOptions,
};
use syncguard_test_effort::either;
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_tests::calls::{SOON, watch};
use tokio::time::timeout;

use crate::postgres::support::{open, shared};
use crate::troubles::silent::Silent;
use crate::troubles::{MINUTE, failures_before_an_extend, take};

/// A URL for these hosts, with tables of this name.
fn url(hosts: &str, name: &str) -> String {
    format!(
        "postgres://postgres:{}@{hosts}/postgres?setup_schema=true&lock_table={name}\
         &fence_table={name}_fences&application_name={name}",
        PostgresServer::PASSWORD
    )
}

async fn extend(backend: &PostgresBackend, lock: LockId) -> Result<(), LockError> {
    let extended = backend.extend(ExtendRequest::new(lock, MINUTE)?).await?;
    assert!(extended.is_extended(), "{extended:?}");
    Ok(())
}

async fn release(backend: &PostgresBackend, lock: LockId) -> Result<()> {
    ensure!(backend.release(ReleaseRequest::new(lock)).await?.is_released());
    Ok(())
}

/// The old sessions are those of a demoted server, and new sessions lead to the new primary: a failover behind one name,
/// which does not end the connections.
#[tokio::test]
async fn an_answer_of_a_read_only_server_leads_to_the_new_primary() -> Result<()> {
    const CONNECTIONS: usize = 5;
    let server = PostgresServer::builder().config("fsync = off").start()?;
    let proxy = FaultProxy::start(server.port())?;
    let url = url(&format!("127.0.0.1:{}", proxy.port()), "demoted");
    let backend = PostgresBackend::connect(&url).await?;
    let lock = take(&backend, "key").await?;
    let mut old = watch(&backend, "key").await.context("a watch")?;
    drop(open(&backend, CONNECTIONS).await?);
    server.psql("ALTER ROLE postgres SET default_transaction_read_only = off")?;
    become_read_only(&server, &backend, CONNECTIONS).await?;

    let before = proxy.counters();
    // No call fails, extends included: the server refused the statement before it did anything.
    extend(&backend, lock).await?;
    release(&backend, take(&backend, "other").await?).await?;
    release(&backend, lock).await?;
    let opened = (proxy.counters() - before).connections;
    ensure!(opened == 1, "{opened} new connections");
    // Nobody releases a lock at the old server any more.
    while !old.is_over() {
        timeout(SOON, old.changed()).await?;
    }
    Ok(())
}

/// Makes the server read-only, and waits until the sessions of the pool know it.
async fn become_read_only(
    server: &PostgresServer,
    backend: &PostgresBackend,
    connections: usize,
) -> Result<()> {
    server.psql("ALTER SYSTEM SET default_transaction_read_only = on")?;
    server.psql("SELECT pg_reload_conf()")?;
    for connection in &open(backend, connections).await? {
        let read_only = "SHOW default_transaction_read_only";
        while connection.query_one(read_only, &[]).await?.get::<_, &str>(0) != "on" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
    Ok(())
}

#[tokio::test]
async fn a_host_name_without_an_address_is_named_as_the_trouble() -> Result<()> {
    // Longer than a name may be, so that no name server is asked.
    let nobody = format!("postgres://{}.example/postgres", "x".repeat(70));
    let error = PostgresBackend::connect(&nobody).await.unwrap_err();
    ensure!(error.code() == ErrorCode::ServiceUnavailable, "{error:?}");
    ensure!(error.message().contains("host name of the database cannot be resolved"), "{error}");
    Ok(())
}

#[tokio::test]
async fn too_many_clients_of_pgbouncer_are_said_to_be_the_trouble() -> Result<()> {
    let pooler = PgBouncer::start_with(shared(), PoolMode::Transaction, &["max_client_conn = 1"])?;
    let options = PostgresOptions::new().with_unprepared_statements(true);
    let first = PostgresBackend::connect_with(&pooler.url(), options.clone()).await?;
    let error = PostgresBackend::connect_with(&pooler.url(), options).await.unwrap_err();
    ensure!(error.code() == ErrorCode::RateLimited && error.is_retryable(), "{error:?}");
    ensure!(error.message().contains("max_client_conn"), "{error}");
    drop(first);
    Ok(())
}

/// Ordinary waits for another session are longer than a few milliseconds.
#[tokio::test]
async fn short_limits_of_the_role_end_no_ordinary_wait() -> Result<()> {
    for (unprepared, settings) in [
        (false, "-c%20lock_timeout%3D5ms%20-c%20statement_timeout%3D400ms"),
        (true, "-c%20lock_timeout%3D5ms"),
    ] {
        let name = format!("short_limits_{unprepared}");
        // The tables come first, because setting them up keeps the limits of the role.
        let url = url(&format!("127.0.0.1:{}", shared().port()), &name);
        drop(PostgresBackend::connect(&url).await?);
        let url = format!(
            "{}&unprepared_statements={unprepared}&options={settings}",
            url.replace("setup_schema=true&", "")
        );
        let backend = PostgresBackend::connect(&url).await?;
        let other = PostgresBackend::connect(&url).await?;
        let mut other = other.pool().get().await?;
        let turn = other.transaction().await?;
        turn.execute("SELECT pg_advisory_xact_lock(hashtext('short limits'))", &[]).await?;
        let waiting = tokio::spawn(async move { take(&backend, "short limits").await });
        tokio::time::sleep(Duration::from_millis(800)).await;
        turn.commit().await?;
        waiting.await?.with_context(|| name)?;
    }
    Ok(())
}

/// As after a firewall has forgotten the connections: the statement that notices it costs a call, the others do not.
/// A busy machine may cost another call; the full run is exact.
#[tokio::test]
async fn a_pool_of_silent_connections_costs_one_call() -> Result<()> {
    const CONNECTIONS: usize = 6;
    let proxy = FaultProxy::start(shared().port())?;
    let options = PostgresOptions::new().with_statement_timeout(Duration::from_secs(2));
    let url = url(&format!("127.0.0.1:{}", proxy.port()), "silent_pool");
    let backend = PostgresBackend::connect_with(&url, options).await?;
    let lock = take(&backend, "key").await?;
    drop(open(&backend, CONNECTIONS).await?);
    proxy.silence();
    let failures = failures_before_an_extend(&backend, lock).await?;
    ensure!((1..=either(CONNECTIONS - 1, 1)).contains(&failures), "{failures} calls failed");
    release(&backend, lock).await
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    #[tokio::test]
    async fn a_silent_host_does_not_keep_callers_from_the_others() -> Result<()> {
        let silent = Silent::of_each_kind().await?;
        for (number, silent) in silent.iter().enumerate() {
            let name = format!("silent_host_{number}");
            let hosts = format!("127.0.0.1:{},127.0.0.1:{}", silent.port(), shared().port());
            let backend = PostgresBackend::connect(&url(&hosts, &name)).await?;
            let lock = take(&backend, "key").await?;
            // Also while running.
            shared().psql(&format!(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '{name}'"
            ))?;
            let failures = failures_before_an_extend(&backend, lock).await?;
            ensure!(failures <= 1, "{failures} calls failed");
            release(&backend, lock).await?;
        }
        Ok(())
    }

    #[tokio::test]
    async fn an_opening_whose_caller_gives_up_goes_on_for_the_next() -> Result<()> {
        let proxy = FaultProxy::start(shared().port())?;
        let options = PostgresOptions::new()
            .with_pool_wait_timeout(Duration::from_millis(500))
            .with_connect_timeout(MINUTE);
        let url = url(&format!("127.0.0.1:{}", proxy.port()), "slow_opening");
        let backend = loop {
            // A busy machine may take longer than the pool wait.
            if let Ok(backend) = PostgresBackend::connect_with(&url, options.clone()).await {
                break backend;
            }
        };
        let lock = take(&backend, "key").await?;
        proxy.sever();
        // A log-in takes several round trips, and so longer than each caller waits.
        proxy.set_latency(Duration::from_millis(150), Duration::from_millis(150));
        let failures = failures_before_an_extend(&backend, lock).await?;
        ensure!(failures > 0, "the opening was too fast to prove anything");
        Ok(())
    }

    /// Nothing else is there yet: the backend looks for another server once a second, and finds it.
    #[tokio::test]
    async fn another_server_is_looked_for_once_a_second() -> Result<()> {
        let server = PostgresServer::builder().config("fsync = off").start()?;
        let proxy = FaultProxy::start(server.port())?;
        let url = url(&format!("127.0.0.1:{}", proxy.port()), "read_only");
        let backend = PostgresBackend::connect(&url).await?;
        let lock = take(&backend, "key").await?;
        drop(open(&backend, 3).await?);
        become_read_only(&server, &backend, 3).await?;
        let (began, before) = (Instant::now(), proxy.counters().connections);
        let mut calls = 0;
        while began.elapsed() < Duration::from_millis(2500) || calls < 50 {
            let error = extend(&backend, lock).await.expect_err("a read-only server");
            ensure!(error.code() == ErrorCode::ServiceUnavailable && !error.is_outcome_unknown());
            ensure!(error.message().contains("locks need the primary"), "{error}");
            calls += 1;
        }
        let (looks, seconds) = (proxy.counters().connections - before, began.elapsed().as_secs());
        println!("{calls} calls, {looks} new connections in {seconds} s");
        ensure!((2..=seconds + 2).contains(&looks), "{looks} new connections in {seconds} s");
        server.psql("ALTER SYSTEM RESET default_transaction_read_only")?;
        server.psql("SELECT pg_reload_conf()")?;
        failures_before_an_extend(&backend, lock).await?;
        Ok(())
    }
}
