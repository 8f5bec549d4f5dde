//! Databases that can lose data.

use anyhow::{Result, ensure};
use syncguard_postgres::contract::{LookupRequest, ReleaseRequest};
use syncguard_postgres::{
    DurabilityRisk, ErrorCode, LockBackend as _, PostgresBackend, PostgresOptions,
};
use syncguard_test_services::postgres::PostgresServer;

use crate::postgres::support::{
    MINUTE, Tables, connect, over, release, request, shared, stage, take,
};

async fn strictly(url: &str, options: PostgresOptions) -> Result<PostgresBackend> {
    let options = options.with_strict_durability(true);
    Ok(PostgresBackend::connect_with(url, options).await?)
}

#[tokio::test]
async fn unlogged_tables_are_reported_and_refused() -> Result<()> {
    let server = PostgresServer::start()?;
    let admin = connect(&server.url()).await;
    let tables = Tables::fresh();
    // An ordinary server is good enough, before and after the tables are created.
    strictly(&server.url(), tables.options()).await?;
    let lax = tables.backend_at(&server.url(), 1).await;
    strictly(&server.url(), tables.options()).await?;
    assert_eq!(lax.durability_report().await?.risks, []);
    for (table, risk) in [
        (&tables.fences, DurabilityRisk::UnloggedFenceTable),
        (&tables.locks, DurabilityRisk::UnloggedLockTable),
    ] {
        admin.batch_execute(&format!("ALTER TABLE {table} SET UNLOGGED")).await?;
        assert_eq!(lax.durability_report().await?.risks, [risk]);
        let error = strictly(&server.url(), tables.options()).await.unwrap_err();
        ensure!(error.to_string().contains("unlogged"), "{error}");

        // With a pool of the user, the first acquire finds out.
        let strict = over(&server.url(), 1, tables.options().with_strict_durability(true));
        let error = strict.acquire(request("key", MINUTE)).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::InvalidArgument, "{error}");
        assert_eq!(tables.counter(&admin, "key").await, 0);
        admin.batch_execute(&format!("ALTER TABLE {table} SET LOGGED")).await?;
        release(&strict, take(&strict, "key").await.lock_id).await?;
        admin.batch_execute(&format!("TRUNCATE {}", tables.fences)).await?;
    }
    release(&lax, take(&lax, "key").await.lock_id).await
}

#[tokio::test]
async fn careless_settings_are_reported() -> Result<()> {
    let server =
        PostgresServer::builder().config("fsync = off").config("full_page_writes = off").start()?;
    let backend = PostgresBackend::connect(&server.url()).await?;
    let risks = backend.durability_report().await?.risks;
    assert_eq!(risks, [DurabilityRisk::FsyncOff, DurabilityRisk::FullPageWritesOff]);
    ensure!(strictly(&server.url(), PostgresOptions::new()).await.is_err());
    Ok(())
}

/// Reads on a standby are answered; no lock can be taken there.
#[tokio::test]
async fn a_standby_is_reported_and_takes_no_locks() -> Result<()> {
    let mut server = PostgresServer::start()?;
    let backend = PostgresBackend::connect(&server.url()).await?;
    backend.setup_schema().await?;
    let lock = take(&backend, "key").await;
    let folder = server.psql("SHOW data_directory")?;
    server.stop()?;
    std::fs::write(format!("{folder}/standby.signal"), "")?;
    server.restart()?;

    assert_eq!(backend.durability_report().await?.risks, [DurabilityRisk::Standby]);
    ensure!(strictly(&server.url(), PostgresOptions::new()).await.is_err());
    ensure!(backend.lookup(LookupRequest::by_key("key")?).await?.is_some());
    for error in [
        backend.acquire(request("other", MINUTE)).await.unwrap_err(),
        backend.release(ReleaseRequest::new(lock.lock_id)).await.unwrap_err(),
    ] {
        assert_eq!(error.code(), ErrorCode::ServiceUnavailable, "{error}");
    }
    Ok(())
}

/// A grant waits for the disk, and for the standby that the server has. The settings of a statement end with it, and a
/// session with stricter settings keeps them.
#[tokio::test]
async fn settings_do_not_outlive_the_statement() -> Result<()> {
    let (tables, _, admin) = stage(1).await;
    let locks = &tables.locks;
    let column = "commits text DEFAULT current_setting('synchronous_commit')";
    admin.batch_execute(&format!("ALTER TABLE {locks} ADD COLUMN {column}")).await?;
    for asked in ["off", "local", "remote_write", "on", "remote_apply"] {
        let url = format!("{}?options=-c%20synchronous_commit%3D{asked}", shared().url());
        let backend = over(&url, 1, tables.options().with_trusted_owner("postgres"));
        let lock = take(&backend, "key").await;
        let row = admin.query_one(&format!("SELECT commits FROM {locks}"), &[]).await?;
        let least = if asked == "remote_apply" { asked } else { "on" };
        assert_eq!(row.get::<_, &str>(0), least, "{asked}");
        release(&backend, lock.lock_id).await?;
        let client = backend.pool().get().await?;
        let sql = "SELECT current_setting('synchronous_commit'), current_setting('lock_timeout')";
        let row = client.query_one(sql, &[]).await?;
        assert_eq!((row.get(0), row.get(1)), (asked, "0"));
    }
    Ok(())
}
