//! A server, and a view of its listeners.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use syncguard_postgres::contract::KeyWatch;
use syncguard_postgres::tokio_postgres::{Client, Config, NoTls};
use syncguard_postgres::{PostgresBackend, PostgresOptions, acquire};
use syncguard_test_services::postgres::PostgresServer;
use tokio::time::timeout;

pub(super) use syncguard_tests::calls::{SOON, unpolled, watch};

use crate::postgres::support::{connect, release, take, until, url_of};

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
        let config: Config = url_of(port).parse()?;
        let options = PostgresOptions::new()
            .with_signals_over(&config, NoTls)
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
        until("watched keys", async || Ok(self.watched().await? == count)).await
    }

    pub(super) async fn listens(&self, count: usize) -> Result<()> {
        until("listeners", async || Ok(self.listeners().await?.len() == count)).await
    }

    /// Lets a caller wait for a lock, and checks that its release is all that the caller needs.
    pub(super) async fn hands_over(
        &self,
        holder: &PostgresBackend,
        waiter: &PostgresBackend,
    ) -> Result<()> {
        // A caller asks for signals once. On a busy machine the connection for them takes long.
        let opens = watch_in_time(waiter, "another key").await?;
        let held = acquire(holder, unpolled("handed over")).await?;
        let waiter = waiter.clone();
        let waiting = tokio::spawn(async move { acquire(&waiter, unpolled("handed over")).await });
        self.watches(2).await?;
        drop(opens);
        held.release().await?;
        timeout(SOON, waiting).await???.release().await?;
        Ok(())
    }
}

const LISTENERS: &str = "FROM pg_stat_activity WHERE pid <> pg_backend_pid()
    AND (query LIKE '%pg_try_advisory_lock_shared%' OR query LIKE '%LISTEN syncguard_%')";

/// Asks repeatedly, like a poller.
pub(super) async fn watch_in_time(backend: &PostgresBackend, key: &str) -> Result<KeyWatch> {
    let mut found = None;
    until("a watch", async || {
        found = watch(backend, key).await;
        Ok(found.is_some())
    })
    .await?;
    found.context("a watch")
}

/// Takes and releases a key that is watched, and checks that the watch hears of it.
pub(super) async fn hears(watch: &mut KeyWatch, by: &PostgresBackend, key: &str) -> Result<()> {
    release(by, take(by, key).await.lock_id).await?;
    timeout(SOON, watch.changed()).await?;
    ensure!(!watch.is_over(), "a lost watch");
    Ok(())
}
