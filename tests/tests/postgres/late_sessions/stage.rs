//! A server with room for few sessions, its faults, and a count of its sessions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_postgres::tokio_postgres::{self, Client, NoTls};
use syncguard_postgres::{PostgresBackend, PostgresOptions, schema_sql};
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
use tokio::time::timeout;

use crate::postgres::support::{SOON, Tables, connect, over, session, until};

/// The connections of each pool.
pub(super) const POOL: usize = 10;

/// The sessions of the library at most: the pool, two more, and some whose connection is closed and that have not ended
/// yet on a busy machine. Without any limit there are 70.
pub(super) const SESSIONS: usize = POOL + 2 + 4;

/// The time limit of a statement.
pub(super) const STATEMENT: Duration = Duration::from_secs(1);

/// A commit that waits for a standby if there is to be one.
const PROBE: &str = "SELECT pg_logical_emit_message(true, 'probe', 'a commit')";

/// The server's limit, without its reserve for superusers: those of the library, the observer, the session that locks
/// a table, the probe, and another application.
const ROOM: usize = SESSIONS + 4;

/// A server of a test's own.
pub(super) struct Stage {
    pub(super) server: PostgresServer,
    tables: Tables,
    /// Observes the sessions.
    admin: Client,
    /// Locks a table.
    locker: Client,
}

/// The way to the server.
#[derive(Clone, Copy, Debug)]
pub(super) enum Means {
    /// A pool of the library.
    Ours,
    /// A pool of the program.
    Theirs,
    /// A transaction pooler, through which nothing is cancelled.
    BehindPgBouncer,
    WithoutCancelRequests,
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
            "CREATE ROLE app LOGIN; GRANT SELECT, INSERT, UPDATE, DELETE ON {}, {} TO app",
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
    pub(super) async fn ours(
        &self,
        url: &str,
        size: usize,
        statement: Duration,
    ) -> Result<PostgresBackend> {
        let options = self.options().with_pool_size(size).with_statement_timeout(statement);
        Ok(PostgresBackend::connect_with(url, options).await?)
    }

    pub(super) async fn backend(
        &self,
        means: Means,
    ) -> Result<(PostgresBackend, Option<PgBouncer>)> {
        let unprepared = self.options().with_unprepared_statements(true);
        Ok(match means {
            Means::Ours => (self.ours(&self.url(), POOL, STATEMENT).await?, None),
            Means::Theirs => (over(&self.url(), POOL, self.options()), None),
            Means::WithoutCancelRequests => (over(&self.url(), POOL, unprepared), None),
            Means::BehindPgBouncer => {
                let pooler = PgBouncer::start(&self.server, PoolMode::Transaction)?;
                let options = unprepared.with_pool_size(POOL);
                let backend = PostgresBackend::connect_with(&pooler.url(), options).await?;
                (backend, Some(pooler))
            }
        })
    }

    pub(super) async fn strike(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::StandbyAway => {
                self.stand_by("nobody").await?;
                timeout(SOON, self.commits_wait()).await.context("commits do not wait")?
            }
            Fault::TableLocked => {
                let sql =
                    format!("BEGIN; LOCK TABLE {} IN ACCESS EXCLUSIVE MODE", self.tables.locks);
                Ok(self.locker.batch_execute(&sql).await?)
            }
        }
    }

    pub(super) async fn heal(&self, fault: Fault) -> Result<()> {
        match fault {
            Fault::StandbyAway => {
                self.stand_by("").await?;
                timeout(SOON, self.admin.execute(PROBE, &[])).await.context("commits wait")??;
                Ok(())
            }
            Fault::TableLocked => Ok(self.locker.batch_execute("ROLLBACK").await?),
        }
    }

    async fn stand_by(&self, names: &str) -> Result<()> {
        let sql = format!("ALTER SYSTEM SET synchronous_standby_names = '{names}'");
        self.admin.batch_execute(&sql).await?;
        Ok(self.admin.batch_execute("SELECT pg_reload_conf()").await?)
    }

    /// Waits until commits wait for a standby: the setting takes effect when the server's processes next check.
    async fn commits_wait(&self) -> Result<()> {
        let probe = connect(&format!("{}?application_name=observer", self.server.url())).await;
        let process = session(&probe).await;
        let probing = tokio::spawn(async move { while probe.execute(PROBE, &[]).await.is_ok() {} });
        let waits = "SELECT FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND pid = $1";
        until("a probe that waits", async || {
            Ok(self.admin.query_opt(waits, &[&process]).await?.is_some())
        })
        .await?;
        self.admin.execute("SELECT pg_terminate_backend($1)", &[&process]).await?;
        probing.await?;
        self.ends(process).await
    }

    /// Waits until a session has ended.
    pub(super) async fn ends(&self, process: i32) -> Result<()> {
        let sql = "SELECT FROM pg_stat_activity WHERE pid = $1";
        until("the end of a session", async || {
            Ok(self.admin.query_opt(sql, &[&process]).await?.is_none())
        })
        .await
    }

    /// True if no session of ours waits for the table.
    pub(super) async fn nobody_waits(&self) -> Result<bool> {
        let sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock'";
        Ok(self.admin.query(sql, &[]).await?.is_empty())
    }

    /// Observes the sessions of the library for a while, while another application connects all the time. Returns the
    /// largest number of sessions.
    pub(super) async fn watch(&self, time: Duration) -> Result<usize> {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND application_name <> 'observer'";
        let others = format!("{}?application_name=observer", self.url());
        let (mut most, mut looks) = (0, 0);
        let started = Instant::now();
        while started.elapsed() < time || looks < 10 {
            let count: i64 = self.admin.query_one(sql, &[]).await?.get(0);
            most = most.max(usize::try_from(count)?);
            if looks % 5 == 0 {
                let connected = tokio_postgres::connect(&others, NoTls).await;
                let (client, connection) = connected
                    .with_context(|| format!("another application, beside {most} sessions"))?;
                let running = tokio::spawn(connection);
                let process = session(&client).await;
                drop(client);
                running.await??;
                // On a busy machine, its sessions would pile up.
                self.ends(process).await?;
            }
            looks += 1;
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        Ok(most)
    }
}
