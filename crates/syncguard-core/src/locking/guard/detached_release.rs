//! Releases that run to their end even if their caller drops the future.

use super::lease::Lease;
use super::release::ReleaseOutcome;
use crate::backend::LockBackend;
use crate::cancel::{Finish, NoAction, OnAbandon};
use crate::client::ReleaseSource;
use crate::contract::response::ReleaseResult;
use crate::rt;
use crate::value::LockError;

/// Releases a lock. The release runs to its end even if the caller drops the future.
pub(super) async fn release<B: LockBackend>(
    lease: Box<Lease<B>>,
) -> Result<ReleaseResult, LockError> {
    let unfinished = lease.client_state.clean_up().unfinished();
    let to_the_end = async move {
        let _unfinished = unfinished;
        let outcome = lease.release(ReleaseSource::Drop).await;
        yield_to_waiter(outcome.woke_waiter).await;
        outcome
    };
    let (outcome, ReportError) = Finish::new(to_the_end, ReportError).await;
    outcome.result
}

/// Releases a lock after the work of [`lock`](crate::lock()), like [`release`]. Returns whether a waiter
/// was woken.
pub(super) async fn dispose<B: LockBackend>(lease: Box<Lease<B>>) -> bool {
    let unfinished = lease.client_state.clean_up().unfinished();
    let to_the_end = async move {
        let _unfinished = unfinished;
        lease.dispose(ReleaseSource::Lock).await
    };
    let (woke_waiter, NoAction) = Finish::new(to_the_end, NoAction).await;
    woke_waiter
}

/// Yields after a waiter was woken. The waiter is often next on this very thread, and would else wait
/// until the caller's next await.
pub(super) async fn yield_to_waiter(woke_waiter: bool) {
    if woke_waiter {
        rt::yield_now().await;
    }
}

/// Reports the error of a release whose caller has gone.
struct ReportError;

impl OnAbandon<ReleaseOutcome> for ReportError {
    fn ended(self, outcome: Option<ReleaseOutcome>) {
        if let Some(outcome) = outcome {
            outcome.report();
        }
    }
}
