//! Running work under a lock.

use std::future::Future;

use super::acquire::acquire;
use super::config::{AutoExtend, LockConfig};
use super::guard::Held;
use crate::backend::LockBackend;
use crate::value::LockError;

/// Runs work for as long as a lock is held, and releases the lock when the work has ended: what most programs need.
///
/// The call waits for the lock like [`acquire`](crate::acquire()), and renews it until the work has ended, as
/// [`AutoExtend`] does; the configuration may [limit the hold](AutoExtend::with_max_hold). If the lock is lost, the work takes no
/// further step and is dropped, as in [`Held::or_lost`], and the call fails. A request that the work has sent before may
/// still be carried out, so each write carries the [fence](Held::fence). A panic in the work also releases the lock.
///
/// The error is the work's own, which can be made from a [`LockError`]: one `?` takes the failures of the lock, its loss
/// and those of the work.
///
/// ```
/// use syncguard_core::{LockBackend, run};
/// # async fn insert(_: &str, _: impl Sized) -> Result<u64, std::io::Error> { Ok(1) }
///
/// async fn charge<B: LockBackend>(backend: &B, payment: &str) -> Result<u64, Box<dyn std::error::Error>> {
///     run(backend, format!("payment:{payment}"), async |held| {
///         Ok(insert(payment, held.fence()).await?) // the fence goes with the write
///     })
///     .await
/// }
/// ```
///
/// [`lock()`] is for work that must not be cut off, and for work that returns no `Result`.
///
/// # Errors
///
/// As [`acquire`](crate::acquire()): the work has not started. [`LockLost`](crate::ErrorCode::LockLost), with the
/// reason as its message: the work was cut off. Else the error of the work. If the release fails, the error goes to
/// the [`ReleaseErrorHandler`](crate::shared::ReleaseErrorHandler).
///
/// # Cancel safety
///
/// As [`lock()`].
pub async fn run<B, C, W, F, T, E>(backend: &B, config: C, work: W) -> Result<T, E>
where
    B: LockBackend,
    C: Into<LockConfig>,
    W: FnOnce(Held<B::Fence>) -> F,
    F: Future<Output = Result<T, E>>,
    E: From<LockError>,
{
    let mut config = config.into();
    config.policy.auto_extend.get_or_insert(AutoExtend::new());
    let key = config.key()?.clone();
    let guard = acquire(backend, config).await?;
    let held = guard.held();
    let ended = held.or_lost(work(held.clone())).await;
    guard.finish().await;
    ended.unwrap_or_else(|reason| {
        let mut lost = LockError::from(reason).with_key(&key).with_lock_id(held.lock_id());
        if let Some(failure) = held.extend_error() {
            lost = lost.with_source(&failure);
        }
        Err(lost.into())
    })
}

/// Runs work while holding a lock, and releases the lock when the work has ended, for work that must not be cut off.
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
