//! A server for all tests that do not break it, and helpers beside the backend.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use syncguard_postgres::contract::{
    AcquireRequest, AcquireResult, Acquired, ExtendRequest, ReleaseRequest,
};
use syncguard_postgres::deadpool_postgres::{
    Manager, ManagerConfig, Object, Pool, RecyclingMethod, Runtime,
};
use syncguard_postgres::tokio_postgres::{Client, Config, NoTls, Transaction};
use syncguard_postgres::{
    ExtendResult, LockBackend as _, LockError, LockId, PostgresBackend, PostgresOptions,
    ReleaseResult, schema_sql, setup_schema,
};
use syncguard_test_services::postgres::{PgBouncer, PoolMode, PostgresServer};
pub(crate) use syncguard_tests::calls::SOON;
use tokio::task::JoinHandle;

/// The server that many tests share. It does not wait for the disk, and has tables with the default names.
pub(crate) fn shared() -> &'static PostgresServer {
    static SERVER: OnceLock<PostgresServer> = OnceLock::new();
    SERVER.get_or_init(|| {
        // Every test has a runtime and pools of its own.
        let server =
            PostgresServer::builder().config("max_connections = 500").config("fsync = off");
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

/// A backend over a pool of the program.
pub(crate) fn over_pool(pool: Pool, options: PostgresOptions) -> PostgresBackend {
    PostgresBackend::from_pool(pool, options).expect("options in range")
}

/// A backend over a pool of this size.
pub(crate) fn over(url: &str, size: usize, options: PostgresOptions) -> PostgresBackend {
    over_pool(pool(url, size), options)
}

/// The URL for a port, like [`PostgresServer::url`].
pub(crate) fn url_of(port: u16) -> String {
    format!("postgres://postgres:{}@127.0.0.1:{port}/postgres", PostgresServer::PASSWORD)
}

/// Opens this many connections of the backend's pool.
pub(crate) async fn open(backend: &PostgresBackend, connections: usize) -> Result<Vec<Object>> {
    let mut opened = Vec::new();
    for _ in 0..connections {
        opened.push(backend.pool().get().await?);
    }
    Ok(opened)
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

    /// The same, created on the shared server.
    pub(crate) async fn made() -> Self {
        let tables = Self::fresh();
        drop(tables.backend(1).await);
        tables
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
        over_pool(pool, self.options())
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

/// Tables of a test's own, a backend over this many connections, and a connection beside it.
pub(crate) async fn stage(size: usize) -> (Tables, PostgresBackend, Client) {
    let tables = Tables::fresh();
    let backend = tables.backend(size).await;
    (tables, backend, connect(&shared().url()).await)
}

pub(crate) fn request(key: &str, ttl: Duration) -> AcquireRequest {
    AcquireRequest::new(key, ttl).expect("a request")
}

/// Takes a lock that must be free.
pub(crate) async fn take(backend: &PostgresBackend, key: &str) -> Acquired {
    let result = backend.acquire(request(key, MINUTE)).await.expect("an answer");
    result.acquired().expect("a free key")
}

/// Extends a lock that must be held.
pub(crate) async fn extend(backend: &PostgresBackend, lock_id: LockId) -> Result<()> {
    let extended = backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await?;
    ensure!(extended.is_extended(), "{extended:?}");
    Ok(())
}

/// Releases a lock that must be held.
pub(crate) async fn release(backend: &PostgresBackend, lock_id: LockId) -> Result<()> {
    let released = backend.release(ReleaseRequest::new(lock_id)).await?;
    ensure!(released.is_released(), "{released:?}");
    Ok(())
}

type Running<T> = JoinHandle<Result<T, LockError>>;

/// An acquire in the background.
pub(crate) fn acquiring(backend: &PostgresBackend, key: &str) -> Running<AcquireResult> {
    let (backend, request) = (backend.clone(), request(key, MINUTE));
    tokio::spawn(async move { backend.acquire(request).await })
}

/// An extend in the background.
pub(crate) fn extending(backend: &PostgresBackend, lock_id: LockId) -> Running<ExtendResult> {
    let backend = backend.clone();
    tokio::spawn(async move { backend.extend(ExtendRequest::new(lock_id, MINUTE)?).await })
}

/// A release in the background.
pub(crate) fn releasing(backend: &PostgresBackend, lock_id: LockId) -> Running<ReleaseResult> {
    let backend = backend.clone();
    tokio::spawn(async move { backend.release(ReleaseRequest::new(lock_id)).await })
}

/// Takes the advisory lock of a key, for as long as the transaction lasts.
pub(crate) async fn turn<'a>(client: &'a mut Client, key: &str) -> Result<Transaction<'a>> {
    let turn = client.transaction().await?;
    turn.execute("SELECT pg_advisory_xact_lock(hashtext($1))", &[&key]).await?;
    Ok(turn)
}

/// Locks all rows of a table of locks, for as long as the transaction lasts.
pub(crate) async fn pin<'a>(client: &'a mut Client, tables: &Tables) -> Result<Transaction<'a>> {
    let pin = client.transaction().await?;
    pin.execute(&format!("SELECT FROM {} FOR UPDATE", tables.locks), &[]).await?;
    Ok(pin)
}

pub(crate) async fn is_refused(backend: &PostgresBackend, key: &str) -> bool {
    let result = backend.acquire(request(key, MINUTE)).await.expect("an answer");
    result.is_busy()
}

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

/// Waits until this many sessions wait for another session's lock in a statement about this table.
pub(crate) async fn waiters(client: &Client, table: &str, count: i64) {
    let sql = "SELECT count(*) >= $2 FROM pg_stat_activity
        WHERE wait_event_type = 'Lock' AND query LIKE '%' || $1::text || '%' AND pid <> pg_backend_pid()";
    until("as many waiting sessions", async || {
        Ok(client.query_one(sql, &[&table, &count]).await?.get(0))
    })
    .await
    .expect("a count");
}

/// The session of a connection.
pub(crate) async fn session(client: &Client) -> i32 {
    client.query_one("SELECT pg_backend_pid()", &[]).await.expect("a number").get(0)
}

/// Waits until this session waits for another session's lock.
pub(crate) async fn waits(client: &Client, session: i32) {
    let sql = "SELECT FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND pid = $1";
    until("a waiting session", async || Ok(client.query_opt(sql, &[&session]).await?.is_some()))
        .await
        .expect("an answer");
}

/// Waits until a condition holds.
pub(crate) async fn until(what: &str, mut holds: impl AsyncFnMut() -> Result<bool>) -> Result<()> {
    let started = Instant::now();
    while !holds().await? {
        ensure!(started.elapsed() < SOON, "{what}: not in time");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    Ok(())
}

/// Waits until these tables have no locks.
pub(crate) async fn settles(admin: &Client, tables: &Tables) -> Result<()> {
    let sql = format!("SELECT count(*) = 0 FROM {}", tables.locks);
    until("no lock left behind", async || Ok(admin.query_one(&sql, &[]).await?.get(0))).await
}

/// Waits until no session of ours is in a transaction.
pub(crate) async fn is_quiet(admin: &Client, tables: &Tables) -> Result<()> {
    let sql = "SELECT FROM pg_stat_activity
        WHERE backend_type = 'client backend' AND pid <> pg_backend_pid() AND state <> 'idle'
          AND query LIKE '%' || $1::text || '%'";
    until("idle sessions", async || Ok(admin.query(sql, &[&tables.locks]).await?.is_empty())).await
}
