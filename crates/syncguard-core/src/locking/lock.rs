//! Running work under a lock.

use std::future::Future;

use super::acquire::acquire;
use super::config::LockConfig;
use super::guard::Held;
use crate::backend::LockBackend;
use crate::value::LockError;

/// Runs work while holding a lock, and releases the lock when the work has ended.
///
/// The call waits for the lock like [`acquire`](crate::acquire()). The work gets a [`Held`]: the fence to
/// send along with writes, and the signal that the lock is lost. The result of the work is returned
/// unchanged, even if it is an error. If the release fails, the error goes to the
/// [`ReleaseErrorHandler`](crate::contract::ReleaseErrorHandler). A panic in the work also releases the
/// lock.
///
/// Work that can fail gives a result in a result; [`lock_flat`] merges the two. Code that is generic over
/// the work and spawns the future needs [`lock_send`].
///
/// ```
/// use syncguard_core::{LockBackend, LockError, lock};
/// # #[derive(Debug)] struct DbError;
/// # async fn insert(_: &str, _: impl Sized) -> Result<u64, DbError> { Ok(1) }
///
/// async fn charge<B: LockBackend>(backend: &B, payment: &str) -> Result<Result<u64, DbError>, LockError> {
///     lock(backend, format!("payment:{payment}"), async |held| {
///         insert(payment, held.fence()).await // the fence goes with the write
///     })
///     .await
/// }
/// ```
///
/// # Errors
///
/// As [`acquire`](crate::acquire()). After an error, the work has not started.
///
/// # Cancel safety
///
/// Dropping the future drops the work at its present await and releases the lock in the background. The
/// configuration's token ends only the wait for the lock, and not the work.
pub async fn lock<B, C, W, T>(backend: &B, config: C, work: W) -> Result<T, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
    W: AsyncFnOnce(Held<B::Fence>) -> T,
{
    let guard = acquire(backend, config).await?;
    let output = work(guard.held()).await;
    guard.finish().await;
    Ok(output)
}

/// [`lock`] for work that can fail: one result for the work and the lock.
///
/// The error type of the work must implement `From<LockError>`, as for the question mark operator. If the
/// compiler cannot infer that type, name it: `Ok::<_, MyError>(…)` at the end of the work.
///
/// ```
/// use syncguard_core::{LockBackend, LockError, lock_flat};
///
/// #[derive(Debug)]
/// enum PayError {
///     Lock(LockError),
///     Declined,
/// }
///
/// impl From<LockError> for PayError {
///     fn from(error: LockError) -> Self {
///         Self::Lock(error)
///     }
/// }
/// # async fn insert(_: &str, _: impl Sized) -> Result<u64, PayError> { Ok(1) }
///
/// async fn charge<B: LockBackend>(backend: &B, payment: &str) -> Result<u64, PayError> {
///     lock_flat(backend, format!("payment:{payment}"), async |held| {
///         let row = insert(payment, held.fence()).await?;
///         Ok(row)
///     })
///     .await
/// }
/// ```
///
/// # Errors
///
/// As [`lock`], and the errors of the work.
///
/// # Cancel safety
///
/// As [`lock`].
pub async fn lock_flat<B, C, W, T, E>(backend: &B, config: C, work: W) -> Result<T, E>
where
    B: LockBackend,
    C: Into<LockConfig>,
    W: AsyncFnOnce(Held<B::Fence>) -> Result<T, E>,
    E: From<LockError>,
{
    lock(backend, config, work).await?
}

/// [`lock`] for code that is generic over the work and spawns the future.
///
/// Generic code cannot require that the future of an `AsyncFnOnce` is `Send`. It can require that of a
/// plain closure that returns a future. Everything else is the same.
///
/// ```
/// use syncguard_core::{Held, LockBackend, lock_send};
///
/// fn in_background<B, W, F>(backend: B, key: String, work: W)
/// where
///     B: LockBackend,
///     W: FnOnce(Held<B::Fence>) -> F + Send + 'static,
///     F: Future<Output = ()> + Send + 'static,
/// {
///     tokio::spawn(async move { lock_send(&backend, key, work).await });
/// }
/// ```
///
/// # Errors
///
/// As [`lock`].
///
/// # Cancel safety
///
/// As [`lock`].
pub async fn lock_send<B, C, W, F>(backend: &B, config: C, work: W) -> Result<F::Output, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
    W: FnOnce(Held<B::Fence>) -> F,
    F: Future,
{
    lock(backend, config, async |held| work(held).await).await
}
