//! Operations that continue when their caller has gone. [`authoring::cancel`](crate::authoring::cancel) explains them to
//! authors of backends.

mod abandoned_acquire;
mod caller;
mod extend_batches;
mod finish;
mod runtime;
mod settle;
mod token;

use std::future::Future;

use tokio_util::sync::CancellationToken;

use self::abandoned_acquire::{AbandonedAcquire, MakeJob, ReleaseJob, SettleJob};
pub use self::caller::Caller;
use self::caller::TellGone;
pub use self::extend_batches::ExtendBatches;
pub(crate) use self::finish::{Finish, NoAction, OnAbandon};
pub(crate) use self::runtime::check_runtime;
pub use self::settle::{Settle, Settled, Unsettled};
pub use self::token::check;
use self::token::interruptible;
use crate::backend::LockBackend;
use crate::contract::request::AcquireRequest;
use crate::contract::response::AcquireResult;
use crate::value::LockError;

/// Runs a read until the token fires. The read may stop at any point.
///
/// # Errors
///
/// `Aborted` when the token fires; `InvalidArgument` outside a tokio runtime with timers; else
/// the read's own error.
///
/// # Cancel safety
///
/// Safe: dropping the future drops the read.
pub async fn read<T, O>(cancellation: Option<&CancellationToken>, read: O) -> Result<T, LockError>
where
    O: Future<Output = Result<T, LockError>>,
{
    interruptible(cancellation, read).await?.unwrap_or_else(|| Err(LockError::aborted()))
}

/// Runs a release or an extend. Once started, it runs to its end even if its caller goes.
///
/// # Errors
///
/// `Aborted` when the token fires, with the outcome unknown if the operation had started;
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
    // Boxed first, so that the returned future is small.
    let operation = Finish::new(operation, NoAction);
    async move {
        match interruptible(cancellation, operation).await? {
            Some((result, NoAction)) => result,
            None => Err(LockError::aborted().with_unknown_outcome()),
        }
    }
}

/// Runs a read that must not stop in mid-conversation. It asks its [`Caller`] before each send, so that it
/// sends nothing after the caller has gone.
///
/// # Errors
///
/// `Aborted` when the token fires; `InvalidArgument` outside a tokio runtime with timers; else
/// the read's own error.
///
/// # Cancel safety
///
/// Safe: the answer to a request that was sent is read in the background, if there is a tokio runtime.
pub fn finish_read<T, O>(
    cancellation: Option<&CancellationToken>,
    read: impl FnOnce(Caller) -> O,
) -> impl Future<Output = Result<T, LockError>>
where
    T: Send + 'static,
    O: Future<Output = Result<T, LockError>> + Send + 'static,
{
    let caller = Caller::new(cancellation);
    let operation = Finish::new(read(caller.clone()), TellGone(caller));
    async move {
        let answered = interruptible(cancellation, operation).await?;
        answered.map_or_else(|| Err(LockError::aborted()), |(result, _)| result)
    }
}

/// Runs an acquire that leaves no lock behind if its caller has gone when the answer comes.
///
/// No lock stays behind either if the answer never comes: after an error with an unknown
/// [outcome](LockError::is_outcome_unknown), the lock id is released in the background, again and again.
/// Without a deadline in the store's time, a request may arrive at any time, so the releases go on until
/// the store has answered for half a minute that there is no such lock. A backend with deadlines uses
/// [`finish_acquire_settled`].
///
/// # Errors
///
/// `Aborted` when the token fires; `InvalidArgument` outside a tokio runtime with timers; else
/// the operation's own error.
///
/// # Cancel safety
///
/// Dropping the future before its first poll starts nothing. Later, the acquire goes on in the background,
/// and a lock that it is granted is released. Without a tokio runtime, the lock ends with its TTL.
pub fn finish_acquire<B, O>(
    backend: &B,
    request: AcquireRequest,
    operation: impl FnOnce(AcquireRequest, Caller) -> O,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: LockBackend,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    start(backend, request, operation, ReleaseJob::make)
}

/// [`finish_acquire`] for a backend that can tell for certain that no lock can come of an acquire any more.
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
    operation: impl FnOnce(AcquireRequest, Caller<B::VoidAfter>) -> O,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: Settle,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    start(backend, request, operation, SettleJob::make)
}

fn start<B, V, O>(
    backend: &B,
    request: AcquireRequest,
    operation: impl FnOnce(AcquireRequest, Caller<V>) -> O,
    make_job: MakeJob<B, V>,
) -> impl Future<Output = Result<AcquireResult<B::Fence>, LockError>>
where
    B: LockBackend,
    V: Copy + Ord + Send + 'static,
    O: Future<Output = Result<AcquireResult<B::Fence>, LockError>> + Send + 'static,
{
    let cancellation = request.cancellation.clone();
    let caller = Caller::new(cancellation.as_ref());
    let abandoned = AbandonedAcquire::new(backend.clone(), &request, caller.clone(), make_job);
    let operation = Finish::new(operation(request, caller), abandoned);
    async move {
        match interruptible(cancellation.as_ref(), operation).await? {
            None => Err(LockError::aborted()),
            Some((Err(error), abandoned)) if error.is_outcome_unknown() => {
                abandoned.clean_up();
                Err(error)
            }
            Some((result, _)) => result,
        }
    }
}

/// Gives back the lock of an acquire in the background, for a backend that has answered "released" while an
/// earlier send of the acquire may still arrive.
///
/// This goes on until [`Settle::settle`] answers [`Settled::Done`].
pub fn settle_later<B: Settle>(backend: &B, acquire: Unsettled<B::VoidAfter>) {
    let job = SettleJob::make(backend.clone(), acquire);
    backend.client_state().clean_up().push(job);
}
