//! Operations that survive the loss of their caller.
//!
//! A request on the wire cannot be taken back. If the caller stops waiting, because its future is
//! dropped or its token fires, somebody has to see the operation through, or an acquire leaves a
//! lock that nobody holds and a pooled connection is left in the middle of a conversation. [`finish`]
//! and [`finish_acquire`] do that: they run the operation in place, and hand what is left of it to the
//! runtime when they are interrupted. In place it costs two allocations and no task.
//!
//! # Requests that arrive late
//!
//! A request may be carried out long after its sender has given it up: the server was stopped and goes
//! on, a packet is sent once more. So a backend gives each write a deadline in the store's own time,
//! and the store refuses it afterwards: [`StoreClock`](crate::authoring::StoreClock) has the deadline. Then an
//! acquire whose outcome is unknown can be cleaned up for certain: once the store says, at a time past
//! the deadline, that there is no such lock, there will be none. A backend says how in [`Settle`], and
//! runs its acquires by [`finish_acquire_settled`].

mod caller;
mod finish;
mod orphan;
mod settle;

use std::future::Future;

use tokio_util::sync::CancellationToken;

pub use self::caller::Caller;
pub(crate) use self::finish::{Finish, Heir};
use self::orphan::{MakeJob, Orphan, Released, Settling};
pub use self::settle::{Settle, Settled, Unsettled};
use crate::contract::{AcquireRequest, AcquireResult};
use crate::rt;
use crate::{LockBackend, LockError};

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
/// `Aborted` as soon as the token fires; `InvalidArgument` outside a tokio runtime with timers; else
/// the read's own error.
///
/// # Cancel safety
///
/// Safe: dropping the future drops the read.
pub async fn read<T, O>(cancellation: Option<&CancellationToken>, read: O) -> Result<T, LockError>
where
    O: Future<Output = Result<T, LockError>>,
{
    check(cancellation)?;
    rt::check()?;
    interruptible(cancellation, read).await.unwrap_or_else(|| Err(LockError::aborted()))
}

/// Runs a release or an extend, which takes effect whatever the caller does; once started it runs to
/// its end.
///
/// # Errors
///
/// `Aborted` as soon as the token fires, with the outcome unknown if the operation had started;
/// `InvalidArgument` outside a tokio runtime with timers; else the operation's own error.
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
    let operation = Finish::new(operation, Nobody);
    async move {
        check(cancellation)?;
        rt::check()?;
        match interruptible(cancellation, operation).await {
            Some((result, Nobody)) => result,
            None => Err(LockError::aborted().with_unknown_outcome()),
        }
    }
}

/// Runs a read that must not be interrupted in mid-conversation, and that is not wanted any more once
/// its caller has gone: it asks the [`Caller`] before it sends anything.
///
/// # Errors
///
/// `Aborted` as soon as the token fires; `InvalidArgument` outside a tokio runtime with timers; else
/// the read's own error.
///
/// # Cancel safety
///
/// Safe: what was sent is read to its end in the background, if there is a tokio runtime.
pub fn finish_read<T, O>(
    cancellation: Option<&CancellationToken>,
    read: impl FnOnce(Caller) -> O,
) -> impl Future<Output = Result<T, LockError>>
where
    T: Send + 'static,
    O: Future<Output = Result<T, LockError>> + Send + 'static,
{
    let caller = Caller::new(cancellation);
    let operation = Finish::new(read(caller.clone()), Leaving(caller));
    async move {
        check(cancellation)?;
        rt::check()?;
        let answered = interruptible(cancellation, operation).await;
        answered.map_or_else(|| Err(LockError::aborted()), |(result, _)| result)
    }
}

/// Runs an acquire that leaves no lock behind if its caller is gone when the answer comes.
///
/// The same holds if the answer never comes: after an error with an unknown
/// [outcome](LockError::is_outcome_unknown), the lock id is released in the background, again and
/// again. Without a deadline in the store's time nobody can say when a request will not arrive any
/// more; this goes on until the store has said for half a minute that there is no such lock. A backend
/// with deadlines takes [`finish_acquire_settled`].
///
/// # Errors
///
/// `Aborted` as soon as the token fires; `InvalidArgument` outside a tokio runtime with timers; else
/// the operation's own error.
///
/// # Cancel safety
///
/// Dropping the future before its first poll starts nothing. Later, the acquire goes on in the
/// background and what it was granted is released. Without a tokio runtime the TTL has to end it.
pub fn finish_acquire<B, O>(
    backend: &B,
    request: AcquireRequest,
    operation: impl FnOnce(AcquireRequest, Caller) -> O,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: LockBackend,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    start(backend, request, operation, Released::job)
}

/// [`finish_acquire`] for a backend that can say for certain that nothing of an acquire is left.
///
/// # Errors
///
/// As [`finish_acquire`].
///
/// # Cancel safety
///
/// As [`finish_acquire`].
pub fn finish_acquire_settled<B, O>(
    backend: &B,
    request: AcquireRequest,
    operation: impl FnOnce(AcquireRequest, Caller) -> O,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: Settle,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    start(backend, request, operation, Settling::job)
}

fn start<B, O>(
    backend: &B,
    request: AcquireRequest,
    operation: impl FnOnce(AcquireRequest, Caller) -> O,
    make_job: MakeJob<B>,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: LockBackend,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    let cancellation = request.cancellation.clone();
    let caller = Caller::new(cancellation.as_ref());
    let orphan = Orphan::new(backend.clone(), &request, caller.clone(), make_job);
    let operation = Finish::new(operation(request, caller), orphan);
    async move {
        check(cancellation.as_ref())?;
        rt::check()?;
        match interruptible(cancellation.as_ref(), operation).await {
            None => Err(LockError::aborted()),
            Some((Err(error), orphan)) if error.is_outcome_unknown() => {
                orphan.clean_up();
                Err(error)
            }
            Some((result, _)) => result,
        }
    }
}

/// Gives back the lock of an acquire in the background: for a backend that has answered "released",
/// while an earlier sending of the acquire may still arrive.
///
/// It goes on until [`Settle::settle`] says that it is done.
pub fn settle_later<B: Settle>(backend: &B, acquire: Unsettled) {
    let job = Settling::job(backend.clone(), acquire);
    backend.client_state().clean_up().push(job);
}

/// Nobody inherits the answer.
pub(crate) struct Nobody;

impl<T> Heir<T> for Nobody {
    fn inherit(self, _: Option<T>) {}
}

/// Says that the caller has gone.
struct Leaving(Caller);

impl<T> Heir<T> for Leaving {
    fn deserted(&mut self) {
        self.0.leaves();
    }

    fn inherit(self, _: Option<T>) {}
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
