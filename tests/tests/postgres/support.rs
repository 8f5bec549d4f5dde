//! A server for all tests that do not break it, and helpers beside the backend.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use anyhow::{Result, bail};
use syncguard_postgres::contract::{AcquireRequest, Acquired};
use syncguard_postgres::deadpool_postgres::{
    Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
};
use syncguard_postgres::tokio_postgres::{Client, Config, NoTls};
use syncguard_postgres::{
    LockBackend as _, PostgresBackend, PostgresOptions, schema_sql, setup_schema,
};
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};

/// The server that many tests share. It does not wait for the disk, and has tables with the default names.
pub(crate) fn shared() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        // Every test has a runtime and pools of its own.
        let server =
            PostgresServer::builder().config("max_connections = 400").config("fsync = off");
        let server = server.start().expect("a PostgreSQL server");
        server
            .psql(&schema_sql(&PostgresOptions::new()).expect("options in range"))
            .expect("the tables");
        server
    })
}

/// A pooler in front of [`shared`].
pub(crate) fn shared_pooler() -> &'static PgBouncer {
    static POOLER: OnceLock<PgBouncer> = OnceLock::new();
    POOLER.get_or_init(|| PgBouncer::start(shared(), PoolMode::Transaction).expect("a PgBouncer"))
}

/// A pool, as a program would make it.
pub(crate) fn pool(url: &str, size: usize) -> Pool {
    let config: Config = url.parse().expect("a URL");
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    Pool::builder(Manager::from_config(config, NoTls, settings))
        .max_size(size)
        .runtime(Runtime::Tokio1)
        .build()
        .expect("a pool")
}

/// The URL for a port, like [`PostgresServer::url`].
pub(crate) fn url_of(port: u16) -> String {
    format!("postgres://postgres:{}@127.0.0.1:{port}/postgres", PostgresServer::PASSWORD)
}

/// A connection outside all pools.
pub(crate) async fn connect(url: &str) -> Client {
    let (client, connection) =
        syncguard_postgres::tokio_postgres::connect(url, NoTls).await.expect("a connection");
    tokio::spawn(connection);
    client
}

/// Tables of a test's own.
#[derive(Clone)]
pub(crate) struct Tables {
    pub(crate) locks: String,
    pub(crate) fences: String,
}

impl Tables {
    /// Names that no other test in this process has or contains, because sessions are found by them.
    pub(crate) fn fresh() -> Self {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        Self { locks: format!("locks_{number:04}"), fences: format!("fences_{number:04}") }
    }

    pub(crate) fn options(&self) -> PostgresOptions {
        PostgresOptions::new().with_tables(&self.locks, &self.fences)
    }

    /// A backend on these tables of the shared server, which are created if they are missing.
    pub(crate) async fn backend(&self, size: usize) -> PostgresBackend {
        self.backend_at(&shared().url(), size).await
    }

    pub(crate) async fn backend_at(&self, url: &str, size: usize) -> PostgresBackend {
        let pool = pool(url, size);
        setup_schema(&pool, &self.options()).await.expect("tables");
        PostgresBackend::from_pool(pool, self.options()).expect("options in range")
    }

    /// Makes all locks of a key older.
    pub(crate) async fn age(&self, client: &Client, key: &str, millis: i64) {
        let sql = format!(
            "UPDATE {} SET expires_at_ms = expires_at_ms - $2, acquired_at_ms = acquired_at_ms - $2
             WHERE key = $1",
            self.locks
        );
        client.execute(&sql, &[&key, &millis]).await.expect("an update");
    }

    /// The counter of a key.
    pub(crate) async fn counter(&self, client: &Client, key: &str) -> i64 {
        let sql =
            format!("SELECT fence FROM {} WHERE fence_key = 'fence:' || $1::text", self.fences);
        let row = client.query_opt(&sql, &[&key]).await.expect("a counter");
        row.map_or(0, |row| row.get(0))
    }
}

pub(crate) fn request(key: &str, ttl: Duration) -> AcquireRequest {
    AcquireRequest::new(key, ttl).expect("a request")
}

/// Takes a lock that must be free.
pub(crate) async fn take(backend: &PostgresBackend, key: &str) -> Acquired {
    let result = backend.acquire(request(key, MINUTE)).await.expect("an answer");
    result.acquired().expect("a free key")
}

pub(crate) async fn is_refused(backend: &PostgresBackend, key: &str) -> bool {
    let result = backend.acquire(request(key, MINUTE)).await.expect("an answer");
    result.is_locked()
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Waits until this many sessions wait for another session's lock in a statement about this table.
pub(crate) async fn waiters(client: &Client, table: &str, count: i64) {
    let sql = "SELECT count(*) FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid()";
    for _ in 0..TRIES {
        let waiting: i64 = client.query_one(sql, &[&table]).await.expect("a count").get(0);
        if waiting >= count {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("{count} sessions were to wait");
}

/// The session of a connection.
pub(crate) async fn session(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a number").get(0)
}

/// Waits until this session waits for another session's lock.
pub(crate) async fn waits(client: &Client, session: i32) {
    let sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = $1";
    for _ in 0..TRIES {
        if client.query_opt(sql, &[&session]).await.expect("an answer").is_some() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("the session was to wait");
}

/// At least 5 ms: only a stopped machine takes longer.
const TRIES: usize = 4000;

/// Waits until these tables have no locks.
pub(crate) async fn settles(admin: &Client, tables: &Tables) -> Result<()> {
    let sql = format!("SELECT count(*) FROM {}", tables.locks);
    for _ in 0..1000 {
        if admin.query_one(&sql, &[]).await?.get::<_, i64>(0) == 0 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    bail!("a lock was left behind");
}

/// Checks that no session of ours is in a transaction.
pub(crate) async fn is_quiet(admin: &Client, tables: &Tables) -> Result<()> {
    let sql = "SELECT state || ': ' || query FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'
          AND query LIKE '%' || $1::text || '%'";
    for _ in 0..1000 {
        if admin.query(sql, &[&tables.locks]).await?.is_empty() {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let row = admin.query_one(sql, &[&tables.locks]).await?;
    bail!("{}", row.get::<_, String>(0));
}
