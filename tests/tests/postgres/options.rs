//! The settings have their documented effects.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::{ReleaseErrorHandler, ReleaseSource};
use syncguard_postgres::{
    ErrorCode, LockConfig, PostgresBackend, PostgresOptions, acquire, schema_sql,
};
use syncguard_test_services::postgres::PostgresServer;
use tokio::sync::mpsc;

use crate::postgres::support::{MINUTE, Tables, connect, pool, shared};

#[tokio::test]
async fn absurd_settings_are_refused() {
    let instant = Duration::from_micros(999);
    let options = PostgresOptions::new;
    for wrong in [
        options().with_pool_wait_timeout(instant),
        options().with_statement_timeout(instant),
        options().with_statement_timeout(Duration::MAX),
        options().with_dispose_timeout(instant),
        options().with_tables("same", "same"),
        options().with_connect_timeout(instant),
        options().with_pool_size(0),
    ] {
        // No server listens there; the options are refused before that matters.
        let connected =
            PostgresBackend::connect_with("postgres://127.0.0.1:1", wrong.clone()).await;
        assert_eq!(connected.unwrap_err().code(), ErrorCode::InvalidArgument);
        let over = PostgresBackend::from_pool(pool("postgres://127.0.0.1:1", 1), wrong.clone());
        assert_eq!(over.unwrap_err().code(), ErrorCode::InvalidArgument);
        assert_eq!(schema_sql(&wrong).unwrap_err().code(), ErrorCode::InvalidArgument);
    }
}

/// A failing release without a caller: the handler is called after the dispose timeout at the latest.
#[tokio::test]
async fn failed_releases_are_heard_of() -> Result<()> {
    let tables = Tables::fresh();
    drop(tables.backend(1).await);
    let (said, mut heard) = mpsc::unbounded_channel();
    let handler = ReleaseErrorHandler::new(move |error, context| {
        let _ = said.send((error.clone(), context.source));
    });
    let options = tables
        .options()
        .with_on_release_error(handler)
        .with_statement_timeout(2 * MINUTE)
        .with_dispose_timeout(Duration::from_millis(100));
    let backend =
        PostgresBackend::from_pool(pool(&shared().url(), 1), options).expect("options in range");
    let mut admin = connect(&shared().url()).await;

    // Without the limit, it would wait for a minute.
    let guard = acquire(&backend, LockConfig::new("slow")).await?;
    let pin = admin.transaction().await?;
    pin.execute(&format!("SELECT FROM {} FOR KEY SHARE", tables.locks), &[]).await?;
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

#[tokio::test]
async fn nothing_private_is_shown() -> Result<()> {
    let tables = Tables::fresh();
    let options = tables.options().with_pool_size(2);
    let text = format!("{options:?}");
    let backend = PostgresBackend::connect_with(&shared().url(), options).await?;
    let text = format!("{text} {backend:?} {:?}", Arc::new(backend.clone()));
    ensure!(!text.contains(PostgresServer::PASSWORD), "{text}");
    Ok(())
}
