//! Behind PgBouncer the library does not listen, because the settings of a session would stay in one of the pooler's
//! sessions.

use anyhow::{Result, ensure};
use syncguard_postgres::contract::SignalStatus;
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{PostgresBackend, PostgresOptions};
use syncguard_test_services::postgres::{PgBouncer, PoolMode};

use super::stage::{Stage, watch};

#[tokio::test]
async fn poolers_are_found_out_before_anything_is_left_in_them() -> Result<()> {
    let stage = Stage::new().await?;
    for mode in [PoolMode::Session, PoolMode::Transaction, PoolMode::Statement] {
        let pooler = PgBouncer::start(&stage.server, mode)?;
        // With the pooler option, and with the pooler's address alone.
        let unprepared = PostgresOptions::new().with_unprepared_statements(true);
        let over = PostgresOptions::new().with_signals_over(&pooler.url().parse()?, NoTls);
        for (url, options) in [(pooler.url(), unprepared), (stage.server.url(), over)] {
            let backend = PostgresBackend::connect_with(&url, options).await?;
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
    let options = PostgresOptions::new()
        .with_unprepared_statements(true)
        .with_signals_over(&stage.server.url().parse()?, NoTls);
    let ours = PostgresBackend::connect_with(&pooler.url(), options.clone()).await?;
    let theirs = PostgresBackend::connect_with(&pooler.url(), options).await?;
    stage.hands_over(&theirs, &ours).await
}
