//! Behind PgBouncer the library does not listen, because the settings of a session would stay in one of the pooler's
//! sessions.

use anyhow::{Result, ensure};
use syncguard_postgres::contract::SignalStatus;
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{PostgresBackend, PostgresOptions, acquire};
use syncguard_test_services::postgres::{PgBouncer, PoolMode};

use super::stage::{SOON, Stage, deaf_without_signals, watch};

#[tokio::test]
async fn poolers_are_found_out_before_anything_is_left_in_them() -> Result<()> {
    let stage = Stage::new().await?;
    for mode in [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement] {
        let pooler = PgBouncer::start(&stage.server, mode)?;
        // With the pooler option, and with the pooler's address alone.
        for unprepared in [true, false] {
            let options = PostgresOptions::new().with_unprepared_statements(unprepared);
            let backend = if unprepared {
                PostgresBackend::connect_with(&pooler.url(), options).await?
            } else {
                let config = pooler.url().parse()?;
                let options = options.with_signals_over(&config, NoTls);
                PostgresBackend::connect_with(&stage.server.url(), options).await?
            };
            for _ in 0..3 {
                ensure!(watch(&backend, "key").await.is_none(), "{mode:?}");
            }
            ensure!(backend.durability_report().await?.signals == SignalStatus::Off);
        }
        ensure!(stage.listeners().await?.is_empty() && stage.watched().await? == 0, "{mode:?}");
    }
    Ok(())
}

/// With a direct connection, waiters behind the pooler get signals through it.
#[tokio::test]
async fn a_way_past_the_pooler_is_enough() -> Result<()> {
    let stage = Stage::new().await?;
    let pooler = PgBouncer::start(&stage.server, PoolMode::Transaction)?;
    let direct = stage.server.url().parse()?;
    let options = || {
        PostgresOptions::new().with_unprepared_statements(true).with_signals_over(&direct, NoTls)
    };
    let ours = PostgresBackend::connect_with(&pooler.url(), options()).await?;
    let theirs = PostgresBackend::connect_with(&pooler.url(), options()).await?;
    let held = acquire(&theirs, deaf_without_signals("key")).await?;
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { acquire(&ours, deaf_without_signals("key")).await }
    });
    stage.watches(1).await?;
    held.release().await?;
    let guard = tokio::time::timeout(SOON, waiting).await???;
    guard.release().await?;
    Ok(())
}
