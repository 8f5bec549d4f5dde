//! Connections that are killed, stalled or refused: waiters poll, and signals come back by themselves.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::contract::SignalStatus;
use syncguard_postgres::tokio_postgres::error::SqlState;
use syncguard_postgres::tokio_postgres::{self, NoTls};
use syncguard_postgres::{
    AcquisitionOptions, LockConfig, PostgresBackend, PostgresOptions, acquire,
};
use syncguard_test_services::proxy::FaultProxy;
use tokio::time::timeout;

use super::stage::{SOON, Stage, hears, unpolled, watch, watch_in_time};
use crate::postgres::support::{MINUTE, until};
use crate::support::warnings::Warnings;

/// Watches a key, and hears of its release.
async fn hears_again(ours: &PostgresBackend, theirs: &PostgresBackend) -> Result<()> {
    hears(&mut watch_in_time(ours, "another").await?, theirs, "another").await
}

/// A waiter that polls gets the lock without signals.
async fn polls(ours: &PostgresBackend, theirs: &PostgresBackend) -> Result<()> {
    let patient = AcquisitionOptions::new().with_timeout(MINUTE);
    let held = acquire(theirs, unpolled("polled")).await?;
    let waiting = tokio::spawn({
        let ours = ours.clone();
        let config = LockConfig::new("polled").with_acquisition(patient);
        async move { acquire(&ours, config).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    held.release().await?;
    timeout(SOON, waiting).await???.release().await?;
    Ok(())
}

#[tokio::test]
async fn a_killed_connection_ends_its_watches_and_comes_back() -> Result<()> {
    let stage = Stage::new().await?;
    let (ours, theirs) = (stage.backend().await?, stage.backend().await?);
    hears_again(&ours, &theirs).await?;
    let mut watches = [watch_in_time(&ours, "a").await?, watch_in_time(&ours, "b").await?];
    stage.kill_listeners().await?;
    for watch in &mut watches {
        while !watch.is_over() {
            timeout(SOON, watch.changed()).await?;
        }
    }
    polls(&ours, &theirs).await?;
    hears_again(&ours, &theirs).await
}

/// A session that only listens counts as idle, whatever it hears.
#[tokio::test]
async fn a_limit_for_idle_sessions_does_not_end_watches() -> Result<()> {
    let stage = Stage::new().await?;
    let known = "SELECT FROM pg_settings WHERE name = 'idle_session_timeout'"; // since PostgreSQL 14
    if stage.admin.query(known, &[]).await?.is_empty() {
        return Ok(());
    }
    let (ours, theirs) = (stage.backend().await?, stage.backend().await?);
    hears_again(&ours, &theirs).await?;
    let limit = "ALTER DATABASE postgres SET idle_session_timeout = '500ms'";
    stage.admin.batch_execute(limit).await?;
    stage.kill_listeners().await?;
    let mut watch = watch_in_time(&ours, "key").await?;
    let (_idle, connection) = tokio_postgres::connect(&stage.server.url(), NoTls).await?;
    let ended = timeout(SOON, connection).await?.err();
    let code = ended.as_ref().and_then(|error| error.code());
    ensure!(code == Some(&SqlState::IDLE_SESSION_TIMEOUT), "{ended:?}");
    hears(&mut watch, &theirs, "key").await
}

/// The tests of the core show how often another connection is tried.
#[tokio::test]
async fn a_refused_connection_is_said_once_and_comes_later() -> Result<()> {
    let warnings = Warnings::new();
    let _here = tracing::subscriber::set_default(warnings.clone());
    let stage = Stage::new().await?;
    stage.admin.batch_execute("CREATE ROLE listener LOGIN CONNECTION LIMIT 0").await?;
    let listener = stage.server.url().replace("postgres:syncguard@", "listener@").parse()?;
    let options = PostgresOptions::new().with_signals_over(&listener, NoTls);
    let ours = PostgresBackend::connect_with(&stage.server.url(), options).await?;
    let theirs = stage.backend().await?;
    let before = warnings.count();
    until("a failure", async || {
        ensure!(watch(&ours, "key").await.is_none());
        Ok(ours.durability_report().await?.signals == SignalStatus::Failing)
    })
    .await?;
    polls(&ours, &theirs).await?;

    stage.admin.batch_execute("ALTER ROLE listener CONNECTION LIMIT 1").await?;
    hears_again(&ours, &theirs).await?;
    ensure!(ours.durability_report().await?.signals == SignalStatus::Working);
    ensure!(warnings.count() - before == 1, "{} warnings", warnings.count() - before);
    Ok(())
}

/// A connection that swallows everything is noticed, with traffic and without.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stalled_connection_is_noticed() -> Result<()> {
    let stage = Stage::new().await?;
    let proxy = FaultProxy::start(stage.server.port())?;
    let ours = stage.backend_that_listens_over(proxy.port()).await?;
    let theirs = stage.backend().await?;
    for has_traffic in [true, false] {
        let mut idle = watch_in_time(&ours, "key").await?;
        hears_again(&ours, &theirs).await?;
        stage.watches(1).await?;
        proxy.freeze(true);
        if has_traffic {
            ensure!(timeout(SOON, watch(&ours, "new")).await?.is_none());
        }
        timeout(SOON, idle.changed()).await?;
        ensure!(idle.is_over());
        polls(&ours, &theirs).await?;
        // While connections cannot be opened, no caller waits long for them.
        ensure!(timeout(SOON, watch(&ours, "new")).await?.is_none());
        proxy.freeze(false);
        hears_again(&ours, &theirs).await?;
    }
    Ok(())
}

/// A table of the same name in another schema is another table, with a channel of its own.
#[tokio::test]
async fn a_table_that_was_made_again_is_heard_again() -> Result<()> {
    let stage = Stage::new().await?;
    let (ours, theirs) = (stage.backend().await?, stage.backend().await?);
    let _before = watch_in_time(&ours, "key").await?;
    hears_again(&ours, &theirs).await?;
    stage.admin.batch_execute("DROP TABLE syncguard_locks").await?;
    ours.setup_schema().await?;
    hears_again(&ours, &theirs).await
}
