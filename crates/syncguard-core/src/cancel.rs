//! For authors of backends: operations that survive the loss of their caller.
//!
//! A request on the wire cannot be taken back. If the caller stops waiting, because its future is
//! dropped or its token fires, somebody has to see the operation through, or an acquire leaves a
//! lock that nobody holds and a pooled connection is left in the middle of a conversation. [`finish`]
//! and [`finish_acquire`] do that: they run the operation in place, and hand what is left of it to the
//! runtime when they are interrupted. In place it costs one allocation and no task.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use crate::rt::{self, Instant, Spawner};
use crate::{
    AcquireRequest, AcquireResult, LockBackend, LockError, LockId, ReleaseRequest, ReleaseResult,
    TIME_TOLERANCE, Ttl,
};

/// Answers `Aborted` if the token has fired already: for a backend's checks between two steps.
///
/// # Errors
///
/// `Aborted` if there is a token and it has fired.
pub fn check(cancellation: Option<&CancellationToken>) -> Result<(), LockError> {
    match cancellation {
        Some(token) if token.is_cancelled() => Err(LockError::aborted()),
        _ => Ok(()),
    }
}

/// Runs a read until the token fires. Nothing of it has to be seen through to its end.
///
/// # Errors
///
/// `Aborted` as soon as the token fires; else the read's own error.
///
/// # Cancel safety
///
/// Safe: dropping the future drops the read.
pub async fn read<T, O>(cancellation: Option<&CancellationToken>, read: O) -> Result<T, LockError>
where
    O: Future<Output = Result<T, LockError>>,
{
    check(cancellation)?;
    interruptible(cancellation, read).await.unwrap_or_else(|| Err(LockError::aborted()))
}

/// Runs a release or an extend, or a read that must not be interrupted; once started it runs to its
/// end whatever the caller does.
///
/// # Errors
///
/// `Aborted` as soon as the token fires, with the outcome unknown if the operation had started;
/// else the operation's own error.
///
/// # Cancel safety
///
/// Dropping the future before its first poll starts nothing. Later, the operation goes on in the
/// background, if there is a tokio runtime.
pub fn finish<T, O>(
    cancellation: Option<&CancellationToken>,
    operation: O,
) -> impl Future<Output = Result<T, LockError>>
where
    T: Send + 'static,
    O: Future<Output = Result<T, LockError>> + Send + 'static,
{
    // Into its box before anything else, so that the future that is returned is a small one.
    let operation = Finish::new(operation, |_| std::future::ready(()));
    async move {
        check(cancellation)?;
        match interruptible(cancellation, operation).await {
            Some(result) => result,
            None => Err(LockError::aborted().with_unknown_outcome()),
        }
    }
}

/// Runs an acquire that leaves no lock behind if its caller is gone when the answer comes.
///
/// The same holds if the answer never comes: after an error with an unknown
/// [outcome](LockError::is_outcome_unknown), the lock id is released in the background, again and
/// again until the store says that it was released or the TTL has passed.
///
/// # Errors
///
/// `Aborted` as soon as the token fires; else the operation's own error.
///
/// # Cancel safety
///
/// Dropping the future before its first poll starts nothing. Later, the acquire goes on in the
/// background and what it was granted is released. Without a tokio runtime the TTL has to end it.
pub fn finish_acquire<B, O>(
    backend: &B,
    request: &AcquireRequest,
    operation: O,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: LockBackend,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    let cancellation = request.cancellation.as_ref();
    let (lock_id, ttl) = (request.lock_id, request.ttl);
    let orphaned = {
        let backend = backend.clone();
        move |result: Result<AcquireResult<B::Fence>, LockError>| async move {
            let may_be_held = match result {
                Ok(result) => result.is_acquired(),
                Err(error) => error.is_outcome_unknown(),
            };
            if may_be_held {
                abandon(backend, lock_id, ttl).await;
            }
        }
    };
    let operation = Finish::new(operation, orphaned);
    async move {
        check(cancellation)?;
        let Some(result) = interruptible(cancellation, operation).await else {
            return Err(LockError::aborted());
        };
        if result.as_ref().is_err_and(LockError::is_outcome_unknown) {
            Spawner::current().spawn(abandon(backend.clone(), lock_id, ttl));
        }
        result
    }
}

/// Releases a lock that nobody wants, until the store confirms it or the lock has run out anyway.
///
/// "Not held" alone confirms nothing, since the acquire may still be on its way; after half a
/// minute of such answers it is not.
async fn abandon<B: LockBackend>(backend: B, lock_id: LockId, ttl: Ttl) {
    const ON_ITS_WAY: Duration = Duration::from_secs(30);
    const LONGEST_PAUSE: Duration = Duration::from_secs(5);
    let run_out = rt::after(ttl.as_duration() + TIME_TOLERANCE);
    let landed = rt::after(ON_ITS_WAY);
    let mut pause = Duration::from_millis(50);
    loop {
        match backend.release(ReleaseRequest::new(lock_id)).await {
            Ok(ReleaseResult::Released) => return,
            Ok(ReleaseResult::NotHeld(_)) if landed <= Instant::now() => return,
            Ok(ReleaseResult::NotHeld(_)) | Err(_) => {}
        }
        let next = rt::after(pause);
        if run_out <= next {
            return;
        }
        rt::sleep_until(next).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// `None` if the token fired first; the operation is then dropped.
async fn interruptible<F: Future>(
    cancellation: Option<&CancellationToken>,
    operation: F,
) -> Option<F::Output> {
    match cancellation {
        None => Some(operation.await),
        Some(token) => tokio::select! {
            biased;
            output = operation => Some(output),
            () = token.cancelled() => None,
        },
    }
}

/// A future that, dropped in mid-flight, is continued by the runtime.
pub(crate) struct Finish<O, T, C, A>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    C: FnOnce(T) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    /// The operation and what to do with its output if nobody else wants it. `None` once done.
    pending: Option<(Pin<Box<O>>, C)>,
    /// Set by the first poll: before it nothing has been sent.
    spawner: Option<Spawner>,
}

impl<O, T, C, A> Finish<O, T, C, A>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    C: FnOnce(T) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    pub(crate) fn new(operation: O, orphaned: C) -> Self {
        Self { pending: Some((Box::pin(operation), orphaned)), spawner: None }
    }
}

/// The operation is pinned in its box; nothing else is ever pinned.
impl<O, T, C, A> Unpin for Finish<O, T, C, A>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    C: FnOnce(T) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
}

impl<O, T, C, A> Future for Finish<O, T, C, A>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    C: FnOnce(T) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        let this = &mut *self;
        this.spawner.get_or_insert_with(Spawner::current);
        let Some((operation, _)) = &mut this.pending else {
            return Poll::Pending;
        };
        let output = std::task::ready!(operation.as_mut().poll(context));
        this.pending = None;
        Poll::Ready(output)
    }
}

impl<O, T, C, A> Drop for Finish<O, T, C, A>
where
    O: Future<Output = T> + Send + 'static,
    T: Send + 'static,
    C: FnOnce(T) -> A + Send + 'static,
    A: Future<Output = ()> + Send + 'static,
{
    fn drop(&mut self) {
        if let (Some(spawner), Some((operation, orphaned))) =
            (self.spawner.take(), self.pending.take())
        {
            spawner.spawn(async move { orphaned(operation.await).await });
        }
    }
}
