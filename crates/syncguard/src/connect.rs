//! A backend from a URL.

use syncguard_core::{DynBackend, LockError};

/// Connects to the store that a URL names, with that backend's default options.
///
/// | URL | store | feature |
/// |---|---|---|
/// | `firestore://project`, `firestore://project/database` | Cloud Firestore, or the emulator that `FIRESTORE_EMULATOR_HOST` names | `firestore` |
/// | `memory:` | this process; every call makes a store of its own | `memory` |
/// | `redis://…`, `redis-cluster://…`, `redis-sentinel://…`; `rediss…` with TLS | Redis or Valkey | `redis`, `tls` |
/// | `postgres://…`, `postgresql://…` | PostgreSQL | `postgres`, `tls` |
///
/// # Errors
///
/// `InvalidArgument` for a URL of another form and for a store whose feature is not enabled. The
/// message never shows the URL, which may hold a password. Else the errors of the backend's own
/// `connect`.
///
/// # Cancel safety
///
/// Safe: a connection that is not wanted any more is closed.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), syncguard::LockError> {
/// let backend = syncguard::connect("memory:").await?;
/// let guard = syncguard::acquire(&backend, "job:report").await?;
/// # drop(guard);
/// # Ok(())
/// # }
/// ```
pub async fn connect(url: &str) -> Result<DynBackend, LockError> {
    let (scheme, rest) = url.split_once(':').unwrap_or((url, ""));
    match scheme {
        "firestore" => firestore(url).await,
        "memory" if rest.is_empty() => memory(),
        "memory" => Err(LockError::invalid_argument("a memory URL is just `memory:`")),
        "postgres" | "postgresql" => postgres(url).await,
        _ if scheme.starts_with("redis") || scheme.starts_with("valkey") => redis(url).await,
        _ => Err(LockError::invalid_argument(
            "the URL names no known store; it starts with memory:, redis:, postgres: or firestore:",
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
#[expect(clippy::unnecessary_wraps, reason = "without the feature it fails")]
fn memory() -> Result<DynBackend, LockError> {
    Ok(DynBackend::new(crate::memory::MemoryBackend::new()))
}

#[cfg(not(feature = "memory"))]
fn memory() -> Result<DynBackend, LockError> {
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

#[cfg(not(all(
    feature = "firestore",
    feature = "memory",
    feature = "postgres",
    feature = "redis"
)))]
fn missing(feature: &str) -> LockError {
    LockError::invalid_argument(format!(
        "this program was built without syncguard's feature `{feature}`"
    ))
}
