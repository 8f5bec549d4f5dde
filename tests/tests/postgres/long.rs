//! The troubles that a lock of the default TTL outlives.

use std::time::Duration;

use anyhow::Result;
use syncguard_postgres::PostgresBackend;
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use tokio::time::sleep;

use crate::troubles::long::outlives;

/// Connects, on a busy machine more than once.
async fn held(name: &str, url: &str, trouble: impl AsyncFnOnce() -> Result<()>) -> Result<()> {
    let url =
        format!("{url}?setup_schema=true&connect_timeout_ms=60000&pool_wait_timeout_ms=60000");
    let backend = PostgresBackend::connect(&url).await?;
    outlives(&backend, name, trouble).await
}

fn server() -> Result<PostgresServer> {
    PostgresServer::builder().config("fsync = off").start()
}

async fn the_server_restarts() -> Result<()> {
    let mut server = server()?;
    let url = server.url();
    let trouble = async || {
        server.kill()?;
        sleep(Duration::from_secs(12)).await;
        server.restart()
    };
    held("the server crashes and is away for 12 s", &url, trouble).await
}

async fn the_password_changes() -> Result<()> {
    let server = PostgresServer::builder()
        .authentication(Authentication::Scram)
        .config("fsync = off")
        .start()?;
    server.psql("CREATE ROLE app LOGIN PASSWORD 'first'")?;
    server.psql("GRANT CREATE ON SCHEMA public TO app")?;
    let url = format!("postgres://app:first@127.0.0.1:{}/postgres", server.port());
    let trouble = async || {
        server.psql("ALTER ROLE app PASSWORD 'second'")?;
        server
            .psql("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'app'")?;
        sleep(Duration::from_secs(15)).await;
        server.psql("ALTER ROLE app PASSWORD 'first'").map(drop)
    };
    held("the password is another one for 15 s", &url, trouble).await
}

async fn sessions_are_ended() -> Result<()> {
    let server = server()?;
    let trouble = async || {
        for _ in 0..30 {
            server.psql(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
                 WHERE application_name LIKE 'syncguard%'",
            )?;
            sleep(Duration::from_millis(500)).await;
        }
        Ok(())
    };
    held("sessions are ended all the time for 15 s", &server.url(), trouble).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lock_of_thirty_seconds_outlives_these_troubles() -> Result<()> {
    tokio::try_join!(the_server_restarts(), the_password_changes(), sessions_are_ended(),)?;
    Ok(())
}
