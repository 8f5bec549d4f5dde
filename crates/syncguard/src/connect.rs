//! A backend from a URL.

use syncguard_core::{DynBackend, LockError};

/// Connects to the store that a URL names, with the options that follow as `?name=value&…`.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory:` | this process; every call makes a store of its own | `memory` |
/// | `redis://[[user:]password@]host[:6379][/database]` | Redis or Valkey, one server | `redis` |
/// | `redis-cluster://[[user:]password@]host[:6379]?node=host:port&…` | a cluster | `redis` |
/// | `redis-sentinel://[[user:]password@]host[:26379][/database]?sentinelServiceName=…` | the master that Sentinels name | `redis` |
/// | `rediss://…`, `rediss-cluster://…`, `rediss-sentinel://…` | the same over TLS | `redis`, `tls` |
/// | `redis+unix:///path` | Redis on a Unix socket | `redis`, `unix-sockets` |
/// | `postgres://user:password@host[:5432]/database`, `postgresql://…` | PostgreSQL | `postgres`, and `tls` for `sslmode=require` |
/// | `sqlite:///path`, `sqlite:path` | a file, for the processes of this machine | `sqlite` |
/// | `firestore://project`, `firestore://project/database` | Cloud Firestore, or an emulator | `firestore` |
///
/// Special characters are percent-encoded: in user names, in passwords, and in values. Times are whole
/// milliseconds, switches `true` or `false`. A parameter that the store does not know is an error,
/// and so is one that is given twice.
///
/// | parameter | what it sets | memory | SQLite | Redis | PostgreSQL | Firestore |
/// |---|---|---|---|---|---|---|
/// | `dispose_timeout_ms` | the longest a release at the end of a guard may take | 5000 | 5000 | 5000 | 5000 | 5000 |
/// | `holder` | who holds the locks, for people; empty is none | host name and process id | the same | the same | the same | the same |
/// | `note` | a note beside it | none | none | none | none | none |
/// | `cleanup_in_is_locked` | lets `is_locked` clear expired locks away | | `false` | `false` | `false` | `false` |
/// | `connect_timeout_ms` | the longest connecting may take: on Redis all of it, else the opening of one connection | | | 5000 | 5000 | 5000 |
/// | `strict_durability` | refuses a store that can lose locks | | `false` | `false` | `false` | |
/// | `key_prefix` | what the names of all records start with; never the beginning of another prefix up to a colon | | | `syncguard` | | |
/// | `command_timeout_ms` | the longest an operation may take | | | 2000 | | |
/// | `connections` | how many connections, 1 to 64 | | | 1 | | |
/// | `wait_replicas` | how many replicas must have a lock before it counts | | | 0 | | |
/// | `wait_replicas_timeout_ms` | how long to wait for them | | | 500 | | |
/// | `lock_table` | the lock table | | | | `syncguard_locks` | |
/// | `fence_table` | the table of fence counters | | | | `syncguard_fence_counters` | |
/// | `setup_schema` | creates the tables where they are missing | | | | `false` | |
/// | `signals` | lets those who wait hear of releases by other processes | | | | `true` | |
/// | `pool_size` | the most connections | | | | 10 | |
/// | `pool_wait_timeout_ms` | the longest to wait for one of them | | | | 5000 | |
/// | `statement_timeout_ms` | the longest to wait for the answer to a statement | | | | 5000 | |
/// | `unprepared_statements` | for PgBouncer's transaction mode | | | | `false` | |
/// | `sslrootcert` | over TLS: a PEM file of the authorities to trust | | | the system's | Mozilla's | |
/// | `collection` | the collection of the locks | | | | | `locks` |
/// | `fence_collection` | the collection of the fence counters | | | | | `fence_counters` |
/// | `request_timeout_ms` | the longest to wait for the answer to one call | | | | | 5000 |
/// | `operation_timeout_ms` | the longest an operation may take, with all its calls | | 5000 | | | 10000 |
/// | `synchronous` | when SQLite waits for the disk: `full` or `normal` | | `full` | | | |
/// | `conflict_retries` | how often an operation starts over | | | | | 24 |
/// | `remembered_locks` | for how many of its locks a call each is saved | | | | | 8192 |
/// | `strict_clock` | acquires nothing while this machine's clock is wrong | | | | | `false` |
/// | `emulator` | `host:port` of an emulator | | | | | `FIRESTORE_EMULATOR_HOST` |
/// | `remote_emulator` | lets the emulator be on another machine | | | | | `false` |
///
/// The drivers' own parameters go on working: `node`, `sentinelServiceName`, `sentinelUsername` and
/// `sentinelPassword` of a Redis cluster or Sentinel, and for PostgreSQL `sslmode`,
/// `application_name`, `channel_binding`, `connect_timeout` (in seconds), `dbname`, `host`, `hostaddr`,
/// `keepalives`, `keepalives_idle`, `keepalives_interval`, `keepalives_retries`,
/// `load_balance_hosts`, `options`, `password`, `port`, `sslnegotiation`, `target_session_attrs`,
/// `tcp_user_timeout` and `user`.
///
/// What is code cannot be in a URL: handlers of release errors (a
/// [`LockConfig`](crate::LockConfig::with_on_release_error) or a
/// [`Locker`](crate::Locker::with_on_release_error) has them too), a test's clock, a client or a pool of
/// the program's own. For these, wrap the backend crate's type in a [`DynBackend`]. Firestore's
/// credentials are Google's application default ones.
///
/// # Errors
///
/// `InvalidArgument` for a URL of another form and for a store whose feature is not enabled. The
/// message says what is wrong and what is allowed, and never shows the URL, which may hold a
/// password. Else the errors of the backend's own `connect`.
///
/// # Cancel safety
///
/// Safe: a connection that is not wanted any more is closed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), syncguard::LockError> {
/// let backend = syncguard::connect("memory:?dispose_timeout_ms=2000").await?;
/// let guard = syncguard::acquire(&backend, "job:report").await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<DynBackend, LockError> {
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "firestore" => firestore(url).await,
        "memory" => memory(url).await,
        "postgres" | "postgresql" => postgres(url).await,
        "sqlite" => sqlite(url).await,
        scheme if scheme.starts_with("redis") || scheme.starts_with("valkey") => redis(url).await,
        _ => Err(LockError::invalid_argument(
            "the URL names no known store; it starts with memory:, sqlite:, redis://, postgres:// or firestore://",
        )),
    }
}

#[cfg(feature = "firestore")]
async fn firestore(url: &str) -> Result<DynBackend, LockError> {
    crate::firestore::FirestoreBackend::connect(url).await.map(DynBackend::new)
}

#[cfg(not(feature = "firestore"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn firestore(_: &str) -> Result<DynBackend, LockError> {
    Err(missing("firestore"))
}

#[cfg(feature = "memory")]
async fn memory(url: &str) -> Result<DynBackend, LockError> {
    crate::memory::MemoryBackend::connect(url).await.map(DynBackend::new)
}

#[cfg(not(feature = "memory"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn memory(_: &str) -> Result<DynBackend, LockError> {
    Err(missing("memory"))
}

#[cfg(feature = "postgres")]
async fn postgres(url: &str) -> Result<DynBackend, LockError> {
    crate::postgres::PostgresBackend::connect(url).await.map(DynBackend::new)
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn postgres(_: &str) -> Result<DynBackend, LockError> {
    Err(missing("postgres"))
}

#[cfg(feature = "redis")]
async fn redis(url: &str) -> Result<DynBackend, LockError> {
    crate::redis::RedisBackend::connect(url).await.map(DynBackend::new)
}

#[cfg(not(feature = "redis"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn redis(_: &str) -> Result<DynBackend, LockError> {
    Err(missing("redis"))
}

#[cfg(feature = "sqlite")]
async fn sqlite(url: &str) -> Result<DynBackend, LockError> {
    crate::sqlite::SqliteBackend::connect(url).await.map(DynBackend::new)
}

#[cfg(not(feature = "sqlite"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn sqlite(_: &str) -> Result<DynBackend, LockError> {
    Err(missing("sqlite"))
}

#[cfg(not(all(
    feature = "firestore",
    feature = "memory",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
)))]
fn missing(feature: &str) -> LockError {
    LockError::invalid_argument(format!(
        "the URL needs the feature `{feature}` of syncguard, which this program was built without"
    ))
}
