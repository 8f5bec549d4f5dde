//! A server, and a view of its listeners.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use syncguard_postgres::contract::{KeyWatch, WatchRequest};
use syncguard_postgres::tokio_postgres::{Client, Config};
use syncguard_postgres::{
    AcquisitionOptions, Backoff, Jitter, Key, LockBackend as _, LockConfig, PostgresBackend,
    PostgresOptions,
};
use syncguard_test_services::postgres::PostgresServer;

use crate::postgres::support::connect;

/// A server of a test's own with the tables in place.
pub(super) struct Stage {
    pub(super) server: PostgresServer,
    pub(super) admin: Client,
}

impl Stage {
    pub(super) async fn new() -> Result<Self> {
        Self::over(PostgresServer::builder().config("fsync = off").start()?).await
    }

    pub(super) async fn over(server: PostgresServer) -> Result<Self> {
        let admin = connect(&server.url()).await;
        PostgresBackend::connect(&server.url()).await?.setup_schema().await?;
        Ok(Self { server, admin })
    }

    /// A backend like one of another process, which shares nothing with other backends.
    pub(super) async fn backend(&self) -> Result<PostgresBackend> {
        Ok(PostgresBackend::connect(&self.server.url()).await?)
    }

    /// A backend that listens on another port than that of its pool.
    pub(super) async fn backend_that_listens_over(&self, port: u16) -> Result<PostgresBackend> {
        self.backend_with(port, PostgresOptions::new()).await
    }

    pub(super) async fn backend_with(
        &self,
        port: u16,
        options: PostgresOptions,
    ) -> Result<PostgresBackend> {
        let config: Config = crate::postgres::support::url_of(port).parse()?;
        let options = options
            .with_signals_over(&config, syncguard_postgres::tokio_postgres::NoTls)
            .with_statement_timeout(Duration::from_millis(500));
        Ok(PostgresBackend::connect_with(&self.server.url(), options).await?)
    }

    /// The number of watched keys of all sessions.
    pub(super) async fn watched(&self) -> Result<i64> {
        let sql = "SELECT count(*) FROM pg_locks
            WHERE locktype = 'advisory' AND mode = 'ShareLock' AND granted";
        Ok(self.admin.query_one(sql, &[]).await?.get(0))
    }

    /// The sessions that listen.
    pub(super) async fn listeners(&self) -> Result<Vec<i32>> {
        let rows = self.admin.query(&format!("SELECT pid {LISTENERS}"), &[]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    /// Ends all sessions that listen.
    pub(super) async fn kill_listeners(&self) -> Result<()> {
        let sql = format!("SELECT pg_terminate_backend(pid) {LISTENERS}");
        self.admin.query(&sql, &[]).await?;
        Ok(())
    }

    pub(super) async fn watches(&self, count: i64) -> Result<()> {
        eventually("watched keys", async || Ok(self.watched().await? == count)).await
    }

    pub(super) async fn listens(&self, count: usize) -> Result<()> {
        eventually("listeners", async || Ok(self.listeners().await?.len() == count)).await
    }
}

const LISTENERS: &str = "FROM pg_stat_activity WHERE pid <> pg_backend_pid()
    AND (query LIKE '%pg_try_advisory_lock_shared%' OR query LIKE '%LISTEN syncguard_%')";

/// Waits until a condition holds, for longer than an unused connection stays.
pub(super) async fn eventually(
    what: &str,
    mut holds: impl AsyncFnMut() -> Result<bool>,
) -> Result<()> {
    let started = Instant::now();
    while !holds().await? {
        if started.elapsed() > SOON {
            bail!("{what}: not in time");
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    Ok(())
}

pub(super) async fn watch(backend: &PostgresBackend, key: &str) -> Option<KeyWatch> {
    backend.watch(WatchRequest::new(Key::new(key).expect("a key"))).await
}

/// Asks repeatedly, like a poller.
pub(super) async fn watch_in_time(backend: &PostgresBackend, key: &str) -> Result<KeyWatch> {
    let mut found = None;
    eventually("a watch", async || {
        found = watch(backend, key).await;
        Ok(found.is_some())
    })
    .await?;
    found.ok_or_else(|| anyhow::anyhow!("no watch"))
}

/// Waits for a lock with such long pauses that no poll can explain its arrival.
pub(super) fn deaf_without_signals(key: &str) -> LockConfig {
    let options = AcquisitionOptions::new()
        .with_max_retries(u32::MAX)
        .with_backoff(Backoff::Fixed)
        .with_jitter(Jitter::None)
        .with_retry_delay(POLL)
        .with_max_retry_delay(POLL)
        .with_timeout(2 * POLL);
    LockConfig::new(key).with_ttl(2 * POLL).with_acquisition(options)
}

pub(super) const POLL: Duration = Duration::from_secs(600);

/// Longer than the busiest machine takes, and far shorter than a poll.
pub(super) const SOON: Duration = Duration::from_secs(120);
