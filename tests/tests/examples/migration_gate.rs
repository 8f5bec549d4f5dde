//! `migration_gate.rs` on PostgreSQL: one instance migrates, and no instance starts before the end of the migration.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::{LockConfig, PostgresBackend, acquire};
use syncguard_test_services::postgres::PostgresServer;

use crate::examples::nightly_job::{connect, one_waits};
use crate::examples::stage::{LONG, Stage};

const GATE: &str = env!("CARGO_BIN_EXE_example-migration-gate");

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_migrates_and_everybody_starts_after_it() -> Result<()> {
    let (postgres, stage) = (PostgresServer::start()?, Stage::new()?);
    let url = postgres.url();
    // The gate is closed until all instances wait.
    let backend = PostgresBackend::connect(&url).await?;
    backend.setup_schema().await?;
    let shut = LockConfig::new("migrations").with_ttl(Duration::from_secs(600));
    let shut = acquire(&backend, shut).await?;
    let mut fleet = Vec::new();
    for _ in 0..4 {
        fleet.push(stage.start(GATE, &[&url])?);
    }
    for instance in &fleet {
        stage.said(instance, "is at the gate").await?;
    }
    ensure!(stage.count(" starts on version 3")? == 0, "{:?}", stage.lines()?);
    ensure!(shut.release().await?.is_released(), "it was shut all the time");
    for instance in fleet {
        instance.wait(LONG)?;
    }
    stage.start(GATE, &[&url])?.wait(LONG)?; // a later instance finds nothing to do

    let lines = stage.lines()?;
    let position = |end: &str| lines.iter().position(|line| line.ends_with(end));
    for version in 1..=3 {
        let done = format!(" migrated to version {version}");
        ensure!(stage.count(&done)? == 1, "version {version}: {lines:?}");
    }
    ensure!(stage.count(" starts on version 3")? == 5, "{lines:?}");
    let (migrated, started) =
        (position(" migrated to version 3"), position(" starts on version 3"));
    ensure!(migrated < started, "somebody started too early: {lines:?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_goes_on_when_the_one_that_migrates_dies() -> Result<()> {
    let (postgres, stage) = (PostgresServer::start()?, Stage::new()?);
    let url = postgres.url();
    // An earlier release left version 1, and a client uses its table, so the second migration waits.
    postgres.psql(
        "CREATE TABLE members (id bigint PRIMARY KEY, name text NOT NULL);
         CREATE TABLE schema_versions (version bigint PRIMARY KEY);
         INSERT INTO schema_versions VALUES (1)",
    )?;
    let mut db = connect(&url).await?;
    let user = db.transaction().await?;
    user.execute("LOCK TABLE members IN ACCESS SHARE MODE", &[]).await?;
    let first = stage.start(GATE, &[&url])?;
    one_waits(&postgres, "ALTER TABLE members").await?;
    let second = stage.start(GATE, &[&url])?;
    stage.said(&second, "is at the gate").await?;
    first.kill()?;
    postgres.psql("UPDATE syncguard_locks SET expires_at_ms = expires_at_ms - 120000")?;
    user.rollback().await?;

    let pid = second.pid();
    second.wait(LONG)?;
    let expected = [
        format!("{pid} migrated to version 2"),
        format!("{pid} migrated to version 3"),
        format!("{pid} starts on version 3"),
    ];
    let lines = stage.lines()?;
    ensure!(lines.ends_with(&expected), "{lines:?}");
    Ok(())
}
