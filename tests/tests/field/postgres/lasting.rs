//! How long a trouble may last before a lock of the default TTL is lost. The troubles begin right before a renewal.

use std::time::Duration;

use anyhow::{Result, ensure};
use syncguard_postgres::{AutoExtend, LockConfig, PostgresBackend, acquire};
use syncguard_test_services::postgres::{Authentication, PostgresServer};
use syncguard_test_services::proxy::FaultProxy;
use tokio::time::sleep;

/// Locks of 30 s are renewed every 10 s.
const BEFORE_A_RENEWAL: Duration = Duration::from_secs(9);
/// With the time before, longer than the lock lives without a renewal.
const AFTERWARDS: Duration = Duration::from_secs(36);

/// Holds a lock while the trouble lasts, and longer than the TTL.
async fn held(
    name: &'static str,
    url: &str,
    trouble: impl AsyncFnOnce() -> Result<()>,
) -> Result<()> {
    let backend = PostgresBackend::connect(&format!("{url}?setup_schema=true")).await?;
    let config = LockConfig::new("key").with_auto_extend(AutoExtend::new());
    let guard = acquire(&backend, config).await?;
    // Each of them may be silent.
    let mut opened = Vec::new();
    for _ in 0..5 {
        opened.push(backend.pool().get().await?);
    }
    drop(opened);
    sleep(BEFORE_A_RENEWAL).await;
    trouble().await?;
    sleep(AFTERWARDS).await;
    ensure!(!guard.is_lost(), "{name}: the lock is lost");
    guard.release().await?;
    Ok(())
}

fn server() -> Result<PostgresServer> {
    PostgresServer::builder().config("fsync = off").start()
}

fn through(proxy: &FaultProxy) -> String {
    format!("postgres://postgres:{}@127.0.0.1:{}/postgres", PostgresServer::PASSWORD, proxy.port())
}

async fn open_connections_are_forgotten() -> Result<()> {
    let server = server()?;
    let proxy = FaultProxy::start(server.port())?;
    let trouble = async || {
        proxy.silence();
        Ok(())
    };
    held("open connections are silent for ever", &through(&proxy), trouble).await
}

async fn all_connections_are_silent() -> Result<()> {
    let server = server()?;
    let proxy = FaultProxy::start(server.port())?;
    let trouble = async || {
        proxy.freeze(true);
        sleep(Duration::from_secs(12)).await;
        proxy.silence();
        proxy.freeze(false);
        Ok(())
    };
    held("all connections are silent for 12 s", &through(&proxy), trouble).await
}

async fn connections_are_refused() -> Result<()> {
    let server = server()?;
    let proxy = FaultProxy::start(server.port())?;
    let trouble = async || {
        proxy.refuse();
        proxy.sever();
        sleep(Duration::from_secs(15)).await;
        proxy.accept()
    };
    held("connections are refused for 15 s", &through(&proxy), trouble).await
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
    tokio::try_join!(
        open_connections_are_forgotten(),
        all_connections_are_silent(),
        connections_are_refused(),
        the_server_restarts(),
        the_password_changes(),
        sessions_are_ended(),
    )?;
    Ok(())
}
