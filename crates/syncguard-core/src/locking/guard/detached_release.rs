//! Releases that run to their end even if their caller drops the future.

use super::lease::Lease;
use super::release::ReleaseOutcome;
use crate::backend::LockBackend;
use crate::cancel::{Finish, OnAbandon};
use crate::client::ReleaseSource;
use crate::rt;

/// Releases a lock. The release runs to its end even if the caller drops the future, and then reports its error.
pub(super) async fn release<B: LockBackend>(
    lease: Lease<B>,
    source: ReleaseSource,
) -> ReleaseOutcome {
    let unfinished = lease.lock.client_state.clean_up().unfinished();
    let to_the_end = async move {
        let _unfinished = unfinished;
        let outcome = lease.release(source).await;
        if outcome.woke_waiter {
            // The waiter is often next on this very thread, and would else wait until the caller's next await.
            rt::yield_now().await;
        }
        outcome
    };
    let (outcome, ReportError) = Finish::new(to_the_end, ReportError).await;
    outcome
}

/// Reports the error of a release whose caller has gone.
struct ReportError;

impl OnAbandon<ReleaseOutcome> for ReportError {
    fn ended(self, outcome: Option<ReleaseOutcome>) {
        if let Some(mut outcome) = outcome {
            outcome.report();
        }
    }
}
