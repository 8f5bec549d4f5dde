//! Running work under a lock.

use std::future::Future;

use crate::{Held, LockBackend, LockConfig, LockError, acquire};

/// Runs work while holding a lock, and releases the lock when the work has ended.
///
/// Waits for its turn like [`acquire`](crate::acquire()). The work gets a [`Held`]: its fence to send along
/// with writes, and the signal that the lock is lost. Its result comes back untouched, also where
/// that is an error of its own; a release that fails afterwards goes to the
/// [`ReleaseErrorHandler`](crate::contract::ReleaseErrorHandler). A panic in the work releases the lock too.
///
/// Work that can fail gives a result in a result; [`lock_flat`] makes one of them. Code that is generic over
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
/// As [`acquire`](crate::acquire()); the work has not started then.
///
/// # Cancel safety
///
/// Dropping the future drops the work where it is and releases the lock in the background. The
/// configuration's token ends the waiting alone: once the work runs, it decides itself.
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

/// [`lock`] for work that can fail: its error and that of the lock come out as one.
///
/// The error of the work takes a [`LockError`] in, by [`From`], as with the question mark operator. Where
/// it is not the error of the function around it, name it: `Ok::<_, MyError>(…)` at the end of the work.
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

/// [`lock`], for code that is itself generic over the work and spawns the result.
///
/// The future of an `AsyncFnOnce` cannot be required to be `Send` by such code; that of a plain
/// closure returning a future can. Everything else is the same.
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
