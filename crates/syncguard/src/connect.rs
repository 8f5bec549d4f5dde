//! A backend from a URL.

use syncguard_core::authoring::backend_url::BackendUrl;
use syncguard_core::{CredentialsProvider, DynBackend, LockError};

/// Connects to the store that a URL names, with the options that follow as `?name=value&…`.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `memory:` | this process; every call makes a new store | `memory` |
/// | `redis://[[user:]password@]host[:6379][/database]` | Redis or Valkey, one server | `redis` |
/// | `redis-cluster://[[user:]password@]host[:6379]?node=host:port&…` | a cluster | `redis` |
/// | `redis-sentinel://[[user:]password@]host[:26379][/database]?sentinelServiceName=…` | the master that the Sentinels name | `redis` |
/// | `rediss://…`, `rediss-cluster://…`, `rediss-sentinel://…` | the same over TLS | `redis`, `tls` |
/// | `redis+unix:///path` | Redis on a Unix socket | `redis`, `unix-sockets` |
/// | `postgres://user:password@host[:5432]/database`, `postgresql://…` | PostgreSQL | `postgres`, and `tls` for `sslmode=require` |
/// | `sqlite:///path`, `sqlite:path` | a file, for the processes of this machine | `sqlite` |
/// | `etcd://[user:password@]host[:2379],…[/prefix]` | an etcd cluster | `etcd` |
/// | `etcds://…` | the same over TLS | `etcd`, `tls` |
/// | `firestore://project`, `firestore://project/database` | Cloud Firestore, or an emulator | `firestore` |
/// | `s3://bucket[/prefix]` (S3) | a bucket of Amazon S3, or of a store that speaks its protocol | `aws` |
/// | `az://container[/prefix]` | a container of Azure Blob Storage | `azure` |
/// | `gs://bucket[/prefix]` | a bucket of Google Cloud Storage | `gcp` |
///
/// Percent-encode special characters in user names, passwords and values. Times are whole milliseconds, switches
/// `true` or `false`. A parameter that the store does not know is an error, and so is a parameter that is given twice.
///
/// | parameter | what it sets | memory | SQLite | Redis | PostgreSQL | Firestore | etcd | S3, Azure, Google |
/// |---|---|---|---|---|---|---|---|---|
/// | `dispose_timeout_ms` | the longest time of a release at the end of a guard | 5000 | 5000 | 5000 | 5000 | 5000 | 5000 | 5000 |
/// | `holder` | the name of the holder, for people; empty is none | host name and process id | the same | the same | the same | the same | the same | the same |
/// | `note` | a note beside it | none | none | none | none | none | none | none |
/// | `cleanup_in_is_locked` | lets `is_locked` clear expired locks away | | `false` | `false` | `false` | `false` | `false` | `false` |
/// | `operation_timeout_ms` | the longest time of an operation, with all its calls | | 5000 | 2000 | 15000 | 10000 | 5000 | 15000 |
/// | `connect_timeout_ms` | the longest time to connect: on Redis for all of it, else for one connection | | | 5000 | 5000 | 5000 | 2000 | 5000 |
/// | `strict_durability` | refuses a store that can lose locks | | `false` | `false` | `false` | | | |
/// | `key_prefix` | the start of the names of all records; never the beginning of another prefix up to a colon | | | `syncguard` | | | | |
/// | `connections` | how many connections, 1 to 64 | | | 1 | | | | |
/// | `wait_replicas` | the number of replicas that must have a lock before it counts | | | 0 | | | | |
/// | `wait_replicas_timeout_ms` | the longest time to wait for the replicas | | | 500 | | | | |
/// | `lock_table` | the lock table | | | | `syncguard_locks` | | | |
/// | `fence_table` | the table of fence counters | | | | `syncguard_fence_counters` | | | |
/// | `setup_schema` | creates the tables if they are missing | | | | `false` | | | |
/// | `upgrade_schema` | the same, and adds columns that tables lack | | | | `false` | | | |
/// | `trusted_owner` | the role whose tables are trusted as they are | | | | none | | | |
/// | `signals` | lets waiters hear of releases by other processes | | | | `true` | | | |
/// | `pool_size` | the most connections | | | | 10 | | | |
/// | `pool_wait_timeout_ms` | the longest time to wait for a connection of the pool | | | | 5000 | | | |
/// | `statement_timeout_ms` | the longest time to wait for the answer to a statement | | | | 5000 | | | |
/// | `unprepared_statements` | for PgBouncer's transaction mode | | | | `false` | | | |
/// | `sslrootcert` | for TLS, a PEM file of the authorities to trust | | | the system's | the system's | | the system's | |
/// | `sslcert` | for TLS, a PEM file of a client certificate | | | none | none | | none | |
/// | `sslkey` | the PEM file of its key | | | none | none | | none | |
/// | `collection` | the collection of the locks | | | | | `locks` | | |
/// | `fence_collection` | the collection of the fence counters | | | | | `fence_counters` | | |
/// | `request_timeout_ms` | the longest time to wait for the answer to one call | | | | | 5000 | 2000 | 5000 |
/// | `synchronous` | when SQLite waits for the disk: `full` or `normal` | | `full` | | | | | |
/// | `conflict_retries` | how often an operation starts over after a conflict | | | | | 24 | | |
/// | `remembered_locks` | the number of its own locks that the backend remembers, which saves a call each | | | | | 8192 | 8192 | 8192 |
/// | `strict_clock` | takes no lock while the store's time is not known | | | | | `false` | `false` | `false` |
/// | `emulator` | `host:port` of an emulator; of a bucket, for `az` | | | | | `FIRESTORE_EMULATOR_HOST` | | none |
/// | `remote_emulator` | lets the emulator be on another machine | | | | | `false` | | |
/// | `endpoint` | the address of a store other than the cloud's; with `http://` in plain text | | | | | | | none |
/// | `region` | the region, for `s3` | | | | | | | `us-east-1` |
/// | `anonymous` | signs no requests | | | | | | | `false` |
/// | `strict_conditions` | checks by races as well that the bucket heeds conditions | | | | | | | `false` |
///
/// A thing that only one kind of store has is a method of its type: connect with that, and give a clone to `DynBackend::new`.
///
/// - The tables of PostgreSQL are made by `setup_schema=true` here, or by `setup_schema` of `PostgresBackend`.
/// - A transaction of your own in PostgreSQL is tied to a lock by `PostgresBackend::check_fence`, or by the statement of
///   `postgres::check_fence_sql`, which needs no backend.
/// - What a store says of itself, without its type: [`health`](crate::LockBackend::health).
///
/// The drivers' own parameters go on working: `node`, `sentinelServiceName`, `sentinelUsername` and
/// `sentinelPassword` of a Redis cluster or Sentinel, and for PostgreSQL `sslmode`,
/// `application_name`, `channel_binding`, `connect_timeout` (in seconds), `dbname`, `host`, `hostaddr`,
/// `keepalives`, `keepalives_idle`, `keepalives_interval`, `keepalives_retries`,
/// `load_balance_hosts`, `options`, `password`, `port`, `sslnegotiation`, `target_session_attrs`,
/// `tcp_user_timeout` and `user`.
///
/// A URL cannot contain code: handlers of release errors (a
/// [`LockConfig`](crate::LockConfig::with_on_release_error) or a
/// [`Locker`](crate::Locker::with_on_release_error) takes a handler too), a test's clock, a client or a pool of the program.
/// For these, wrap the backend crate's type in a [`DynBackend`]. [`connect_with_credentials`] takes passwords that change. Firestore uses Google's application default credentials. Buckets use the environment variables of the crate `object_store`, as `AWS_REGION`, and the
/// machine's role.
///
/// # Errors
///
/// `InvalidArgument` for a URL of another form and for a store whose feature is not enabled. The message says what is wrong
/// and what is allowed, and never shows the URL, which may contain a password. Otherwise the errors of the backend's own
/// `connect`.
///
/// # Cancel safety
///
/// Safe: if the future is dropped, the connection is closed.
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
    connect_as(url, None).await
}

/// Connects as [`connect`] does, and asks this provider for the password of each log-in.
///
/// # Errors
///
/// As [`connect`], and those of the provider. `InvalidArgument` for a store without passwords: memory, SQLite,
/// Firestore and buckets, whose access tokens their libraries renew.
///
/// # Cancel safety
///
/// As [`connect`].
pub async fn connect_with_credentials(
    url: &str,
    provider: CredentialsProvider,
) -> Result<DynBackend, LockError> {
    connect_as(url, Some(provider)).await
}

async fn connect_as(
    url: &str,
    credentials: Option<CredentialsProvider>,
) -> Result<DynBackend, LockError> {
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "etcd" | "etcds" => etcd(url, credentials).await,
        "postgres" | "postgresql" => postgres(url, credentials).await,
        scheme if scheme.starts_with("redis") || scheme.starts_with("valkey") => {
            redis(url, credentials).await
        }
        "az" | "firestore" | "gs" | "memory" | "s3" | "sqlite" if credentials.is_some() => {
            Err(LockError::invalid_argument("this store has no log-in with a password"))
        }
        "firestore" => firestore(url).await,
        "memory" => memory(url).await,
        "az" | "gs" | "s3" => object_store(url).await,
        "sqlite" => sqlite(url).await,
        _ => {
            BackendUrl::parse(url)?;
            Err(LockError::invalid_argument(
                "the URL names no known store; it starts with memory:, sqlite:, redis://, postgres://, etcd://, firestore://, s3://, az:// or gs://",
            ))
        }
    }
}

#[cfg(feature = "etcd")]
async fn etcd(
    url: &str,
    credentials: Option<CredentialsProvider>,
) -> Result<DynBackend, LockError> {
    use crate::etcd::{EtcdBackend, EtcdOptions};
    let options = EtcdOptions::new();
    let options = credentials.into_iter().fold(options, EtcdOptions::with_credentials);
    EtcdBackend::connect_with(url, options).await.map(DynBackend::new)
}

#[cfg(not(feature = "etcd"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn etcd(_: &str, _: Option<CredentialsProvider>) -> Result<DynBackend, LockError> {
    Err(missing("etcd"))
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

#[cfg(feature = "object-store")]
async fn object_store(url: &str) -> Result<DynBackend, LockError> {
    crate::object_store::ObjectStoreBackend::connect(url).await.map(DynBackend::new)
}

#[cfg(not(feature = "object-store"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn object_store(url: &str) -> Result<DynBackend, LockError> {
    let scheme = url.split_once(':').map_or("", |(scheme, _)| scheme);
    Err(missing(match scheme {
        "s3" => "aws",
        "az" => "azure",
        _ => "gcp",
    }))
}

#[cfg(feature = "postgres")]
async fn postgres(
    url: &str,
    credentials: Option<CredentialsProvider>,
) -> Result<DynBackend, LockError> {
    use crate::postgres::{PostgresBackend, PostgresOptions};
    let options = PostgresOptions::new();
    let options = credentials.into_iter().fold(options, PostgresOptions::with_credentials);
    PostgresBackend::connect_with(url, options).await.map(DynBackend::new)
}

#[cfg(not(feature = "postgres"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn postgres(_: &str, _: Option<CredentialsProvider>) -> Result<DynBackend, LockError> {
    Err(missing("postgres"))
}

#[cfg(feature = "redis")]
async fn redis(
    url: &str,
    credentials: Option<CredentialsProvider>,
) -> Result<DynBackend, LockError> {
    use crate::redis::{RedisBackend, RedisOptions};
    let options = RedisOptions::new();
    let options = credentials.into_iter().fold(options, RedisOptions::with_credentials);
    RedisBackend::connect_with(url, options).await.map(DynBackend::new)
}

#[cfg(not(feature = "redis"))]
#[expect(clippy::unused_async, reason = "with the feature it connects")]
async fn redis(_: &str, _: Option<CredentialsProvider>) -> Result<DynBackend, LockError> {
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
    feature = "etcd",
    feature = "firestore",
    feature = "memory",
    feature = "object-store",
    feature = "postgres",
    feature = "redis",
    feature = "sqlite"
)))]
fn missing(feature: &str) -> LockError {
    LockError::invalid_argument(format!(
        "the URL needs the feature `{feature}` of syncguard, which this program was built without"
    ))
}
