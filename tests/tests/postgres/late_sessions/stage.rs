//! A server with room for few sessions, its faults, and a count of its sessions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{PostgresBackend, PostgresOptions, schema_sql};
use syncguard_test_services::postgres::PostgresServer;
use tokio::time::timeout;

use crate::postgres::support::{Tables, connect, pool, session};

/// The connections of each pool.
pub(super) const POOL: usize = 10;

/// The time limit of a statement.
pub(super) const STATEMENT: Duration = Duration::from_secs(1);

/// Longer than a busy machine takes for anything here.
pub(super) const LIMIT: Duration = Duration::from_secs(20);

/// A commit that waits for a standby if there is to be one.
const PROBE: &str = "SELECT pg_logical_emit_message(true, 'probe', 'a commit')";

/// The server's limit, without its reserve for superusers: the pool, two more, the observer, the session that locks a
/// table, and another application that reconnects while its last session may still end.
const ROOM: usize = POOL + 2 + 2 + 2;

/// A server of a test's own.
pub(super) struct Stage {
    pub(super) server: PostgresServer,
    pub(super) tables: Tables,
    /// Observes the sessions.
    pub(super) admin: Client,
    /// Locks a table.
    locker: Client,
}

/// The reason for late statements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Fault {
    /// Every commit waits for a standby that is away. No timeout of a session ends that.
    StandbyAway,
    /// Every statement waits for the lock table.
    TableLocked,
}

impl Stage {
    pub(super) async fn set() -> Result<Self> {
        let server = PostgresServer::builder()
            .config("fsync = off")
            .config("superuser_reserved_connections = 3")
            .config(&format!("max_connections = {}", ROOM + 3))
            .start()?;
        let tables = Tables::fresh();
        server.psql(&schema_sql(&tables.options()).expect("options in range"))?;
        server.psql(&format!(
            "CREATE ROLE app LOGIN; GRANT ALL ON {}, {} TO app",
            tables.locks, tables.fences
        ))?;
        let ours = format!("{}?application_name=observer", server.url());
        let (admin, locker) = (connect(&ours).await, connect(&ours).await);
        Ok(Self { server, tables, admin, locker })
    }

    /// For a role without the reserved sessions of superusers.
    pub(super) fn url(&self) -> String {
        self.server.url().replace("postgres:syncguard@", "app@")
    }

    pub(super) fn options(&self) -> PostgresOptions {
        let options = self.tables.options().with_statement_timeout(STATEMENT);
        options.with_pool_wait_timeout(2 * STATEMENT)
    }

    /// Uses a pool of the library.
    pub(super) async fn ours(&self) -> Result<PostgresBackend> {
        Ok(PostgresBackend::connect_with(&self.url(), self.options().with_pool_size(POOL)).await?)
    }

    /// Uses a pool of the program.
    pub(super) fn theirs(&self) -> PostgresBackend {
        PostgresBackend::from_pool(pool(&self.url(), POOL), self.options())
            .expect("options in range")
    }

    pub(super) async fn strike(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::StandbyAway => self.stand_by("nobody").await,
            Fault::TableLocked => {
                let sql =
                    format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", self.tables.locks);
                Ok(self.locker.batch_execute(&sql).await?)
            }
        }
    }

    pub(super) async fn heal(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::StandbyAway => self.stand_by("").await,
            Fault::TableLocked => Ok(self.locker.batch_execute("ROLLBACK").await?),
        }
    }

    async fn stand_by(&self, names: &str) -> Result<()> {
        let sql = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        self.admin.batch_execute(&sql).await?;
        self.admin.batch_execute("SELECT pg_reload_conf()").await?;
        // The setting takes effect when the server's processes next check.
        if names.is_empty() {
            timeout(LIMIT, self.admin.execute(PROBE, &[])).await.context("commits wait")??;
            return Ok(());
        }
        timeout(LIMIT, self.commits_wait()).await.context("commits do not wait")?
    }

    /// Waits until commits wait for a standby.
    async fn commits_wait(&self) -> Result<()> {
        let probe = connect(&format!("{}?application_name=observer", self.server.url())).await;
        let process = session(&probe).await;
        let probing = tokio::spawn(async move { while probe.execute(PROBE, &[]).await.is_ok() {} });
        let waits = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = $1";
        while self.admin.query_opt(waits, &[&process]).await?.is_none() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        // The probe must not use up the room.
        self.admin.execute("SELECT pg_terminate_backend($1)", &[&process]).await?;
        probing.await?;
        let is_there = "SELECT FROM pg_stat_activity WHERE pid = $1";
        while self.admin.query_opt(is_there, &[&process]).await?.is_some() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        Ok(())
    }

    /// The sessions of the library.
    pub(super) async fn sessions(&self) -> Result<usize> {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND application_name <> 'observer'";
        let count: i64 = self.admin.query_one(sql, &[]).await?.get(0);
        Ok(usize::try_from(count)?)
    }

    /// Observes the sessions for a while, while another application connects all the time. Returns the largest number
    /// of sessions.
    pub(super) async fn watch(&self, time: Duration) -> Result<usize> {
        let others = format!("{}?application_name=observer", self.url());
        let (mut most, mut looks) = (0, 0);
        let started = Instant::now();
        while started.elapsed() < time || looks < 10 {
            most = most.max(self.sessions().await?);
            if looks % 5 == 0 {
                let connected = syncguard_postgres::tokio_postgres::connect(
                    &others,
                    syncguard_postgres::tokio_postgres::NoTls,
                );
                let (client, connection) = connected
                    .await
                    .with_context(|| format!("another application, beside {most} sessions"))?;
                let running = tokio::spawn(connection);
                client.batch_execute("SELECT 1").await?;
                drop(client);
                running.await??;
            }
            looks += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(most)
    }
}
