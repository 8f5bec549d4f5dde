//! Retries an operation after a conflict, or on another member after a failure, within bounds of number and time.

use std::time::Duration;

use syncguard_core::Jitter;
pub(crate) use syncguard_core::authoring::Attempt;
use syncguard_core::authoring::Attempts;
use syncguard_core::authoring::pause::Backoff;

use crate::error::{Fault, Finding};

/// The retries after conflicts. Only the holder of a lock changes it, so conflicts are rare: an extend and a release at once.
const CONFLICTS: u32 = 16;

/// An election takes one to two seconds.
const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(200),
    jitter: Jitter::Full,
};

/// The attempts of an operation: some after conflicts, and after failures of members as many as there is time for.
pub(crate) fn attempts(
    request_timeout: Duration,
    total: Duration,
) -> Attempts<impl FnMut(&Fault) -> bool + Send + use<>> {
    let mut conflicts = CONFLICTS;
    Attempts::new(PAUSES, request_timeout, total, move |fault: &Fault| {
        if fault.finding != Some(Finding::Conflict) {
            return fault.subject.needs_new_connection();
        }
        let left = conflicts.checked_sub(1);
        conflicts = left.unwrap_or_default();
        left.is_some()
    })
}

#[cfg(test)]
mod tests {
    use syncguard_core::authoring::FailureSubject;
    use syncguard_core::{ErrorCode, LockError};
    use tokio::time::Instant;

    use super::*;

    fn fault(subject: FailureSubject, unknown: bool) -> Fault {
        let error = LockError::new(ErrorCode::ServiceUnavailable, "x");
        let error = if unknown { error.with_unknown_outcome() } else { error };
        Fault { subject, ..Fault::from(error) }
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_counted() {
        let mut attempts = attempts(Duration::from_secs(1), Duration::from_secs(60));
        for _ in 0..CONFLICTS {
            attempts.again(Fault::conflict()).await.unwrap();
        }
        assert!(!attempts.again(Fault::conflict()).await.unwrap_err().is_outcome_unknown());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_the_server_is_tried_again_while_there_is_time() {
        let mut attempts = attempts(Duration::from_secs(1), Duration::from_secs(5));
        let began = Instant::now();
        attempts.again(fault(FailureSubject::Connection, true)).await.unwrap();
        let error = loop {
            if let Err(error) = attempts.again(fault(FailureSubject::Server, false)).await {
                break error;
            }
        };
        let took = began.elapsed();
        assert!(took > Duration::from_secs(4) && took < Duration::from_secs(5));
        assert!(attempts.attempt().lost.is_some() && error.is_outcome_unknown());
        assert!(attempts.again(fault(FailureSubject::Request, false)).await.is_err());
    }
}
