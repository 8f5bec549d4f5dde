//! A server with room for few sessions, what goes wrong with it, and who counts its sessions.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use syncguard_postgres::tokio_postgres::Client;
use syncguard_postgres::{PostgresBackend, PostgresOptions, schema_sql};
use syncguard_test_services::postgres::PostgresServer;

use crate::support::{Tables, connect, pool};

/// The connections of each pool.
pub(super) const POOL: usize = 10;

/// How long a statement is waited for.
pub(super) const STATEMENT: Duration = Duration::from_secs(1);

/// What the server has room for, beside what it keeps for superusers: the pool, two more, who watches,
/// who locks a table, and another application that connects anew while its last session may still end.
const ROOM: usize = POOL + 2 + 2 + 2;

/// A server of a test's own.
pub(super) struct Stage {
    pub(super) server: PostgresServer,
    pub(super) tables: Tables,
    /// Looks at the sessions.
    pub(super) admin: Client,
    /// Locks a table.
    locker: Client,
}

/// What makes statements late.
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

    /// For a role that has none of the sessions that are kept for superusers.
    pub(super) fn url(&self) -> String {
        self.server.url().replace("postgres:syncguard@", "app@")
    }

    pub(super) fn options(&self) -> PostgresOptions {
        let options = self.tables.options().with_statement_timeout(STATEMENT);
        options.with_pool_wait_timeout(2 * STATEMENT)
    }

    /// Over a pool of the library's own.
    pub(super) async fn ours(&self) -> Result<PostgresBackend> {
        Ok(PostgresBackend::connect_with(&self.url(), self.options().with_pool_size(POOL)).await?)
    }

    /// Over a pool as a program would make it.
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
        // The setting takes effect where the server's processes next look.
        tokio::time::sleep(Duration::from_millis(50)).await;
        Ok(())
    }

    /// The sessions of the library.
    pub(super) async fn sessions(&self) -> Result<usize> {
        let sql = "SELECT count(*) FROM pg_stat_activity
            WHERE backend_type = 'client backend' AND application_name <> 'observer'";
        let count: i64 = self.admin.query_one(sql, &[]).await?.get(0);
        Ok(usize::try_from(count)?)
    }

    /// Looks at the sessions for a while, and lets another application connect all the time. The
    /// most sessions that were seen at a time.
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
