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
/// [`ReleaseErrorHandler`](crate::shared::ReleaseErrorHandler). A panic in the work also releases the
/// lock.
///
/// Work that can fail gives a result in a result: `.await??` if the error of the function is made from both.
/// **`Ok` means that the work ran, and not that the lock was held to its end.** Work that must end with its lock
/// runs in [`Held::or_lost`]; in both cases a fence in each write keeps a late write out.
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
/// The future is `Send` if the work is, also in code that is generic over the work:
///
/// ```
/// use syncguard_core::{Held, LockBackend, lock};
///
/// fn in_background<B, W, F>(backend: B, key: String, work: W)
/// where
///     B: LockBackend,
///     W: FnOnce(Held<B::Fence>) -> F + Send + 'static,
///     F: Future<Output = ()> + Send + 'static,
/// {
///     tokio::spawn(async move { lock(&backend, key, work).await });
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
pub async fn lock<B, C, W, F>(backend: &B, config: C, work: W) -> Result<F::Output, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
    W: FnOnce(Held<B::Fence>) -> F,
    F: Future,
{
    let guard = acquire(backend, config).await?;
    let output = work(guard.held()).await;
    guard.finish().await;
    Ok(output)
}
