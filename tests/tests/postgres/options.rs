//! The settings have their documented effects.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_postgres::shared::{ReleaseErrorHandler, ReleaseSource};
use syncguard_postgres::{
    ErrorCode, LockConfig, PostgresBackend, PostgresOptions, acquire, schema_sql,
};
use tokio::sync::mpsc;

use crate::postgres::support::{MINUTE, Tables, connect, over, pin, pool, shared};

/// The unit tests of the settings have all that is out of range.
#[tokio::test]
async fn absurd_settings_are_refused() {
    // No server listens there; the options are refused before that matters.
    const NOWHERE: &str = "postgres://127.0.0.1:1";
    let wrong = PostgresOptions::new().with_tables("same", "same");
    let connected = PostgresBackend::connect_with(NOWHERE, wrong.clone()).await;
    assert_eq!(connected.unwrap_err().code(), ErrorCode::InvalidArgument);
    let over = PostgresBackend::from_pool(pool(NOWHERE, 1), wrong.clone());
    assert_eq!(over.unwrap_err().code(), ErrorCode::InvalidArgument);
    assert_eq!(schema_sql(&wrong).unwrap_err().code(), ErrorCode::InvalidArgument);
}

/// A failing release without a caller: the handler is called after the dispose timeout at the latest.
#[tokio::test]
async fn failed_releases_are_heard_of() -> Result<()> {
    let tables = Tables::made().await;
    let (said, mut heard) = mpsc::unbounded_channel();
    let handler = ReleaseErrorHandler::new(move |error, context| {
        let _ = said.send((error.clone(), context.source));
    });
    let options = tables
        .options()
        .with_on_release_error(handler)
        .with_statement_timeout(2 * MINUTE)
        .with_dispose_timeout(Duration::from_millis(100));
    let backend = over(&shared().url(), 1, options);
    let mut admin = connect(&shared().url()).await;

    // Without the limit, it would wait for a minute.
    let guard = acquire(&backend, LockConfig::new("slow")).await?;
    let pin = pin(&mut admin, &tables).await?;
    drop(guard);
    let (error, source) =
        tokio::time::timeout(MINUTE / 2, heard.recv()).await?.context("an error")?;
    assert_eq!((error.code(), source), (ErrorCode::NetworkTimeout, ReleaseSource::Drop));
    pin.rollback().await?;

    let guard = acquire(&backend, LockConfig::new("closed")).await?;
    backend.pool().close();
    drop(guard);
    let (error, source) = heard.recv().await.context("an error")?;
    assert_eq!((error.code(), source), (ErrorCode::ServiceUnavailable, ReleaseSource::Drop));
    Ok(())
}
