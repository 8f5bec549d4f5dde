//! Retries an operation after a conflict or a broken connection, within bounds of number and time.

use std::time::Duration;

use syncguard_core::Jitter;
pub(crate) use syncguard_core::authoring::Attempt;
use syncguard_core::authoring::Attempts;
use syncguard_core::authoring::pause::Backoff;

use crate::error::Fault;

/// The retries after broken connections. The calls after a broken call may still fail with the end of the same connection:
/// on a busy machine, the second to the fifth call did.
const RECONNECTS: u32 = 6;

const PAUSES: Backoff = Backoff {
    first: Duration::from_millis(5),
    longest: Duration::from_millis(400),
    jitter: Jitter::Full,
};

/// The attempts of an operation, with so many retries after conflicts.
pub(crate) fn attempts(
    mut conflicts: u32,
    request_timeout: Duration,
    total: Duration,
) -> Attempts<impl FnMut(&Fault) -> bool + Send + use<>> {
    let mut reconnects = RECONNECTS;
    Attempts::new(PAUSES, request_timeout, total, move |fault: &Fault| {
        let tries = if fault.is_conflict {
            &mut conflicts
        } else if fault.subject.needs_new_connection() && !fault.is_timeout() {
            &mut reconnects
        } else {
            return false;
        };
        let left = tries.checked_sub(1);
        *tries = left.unwrap_or_default();
        left.is_some()
    })
}

#[cfg(test)]
mod tests {
    use syncguard_core::authoring::FailureSubject;
    use syncguard_core::{ErrorCode, LockError};

    use super::*;

    fn fault(subject: Option<FailureSubject>, unknown: bool) -> Fault {
        let error = LockError::new(ErrorCode::ServiceUnavailable, "x");
        let error = if unknown { error.with_unknown_outcome() } else { error };
        let is_conflict = subject.is_none();
        let subject = subject.unwrap_or(FailureSubject::Request);
        Fault { subject, is_conflict, ..Fault::from(error) }
    }

    const CONFLICT: Option<FailureSubject> = None;
    const DISCONNECTED: Option<FailureSubject> = Some(FailureSubject::Connection);
    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test]
    async fn conflicts_are_counted() {
        let mut attempts = attempts(3, SECOND, SECOND * 10);
        for _ in 0..3 {
            attempts.again(fault(CONFLICT, false)).await.unwrap();
        }
        let error = attempts.again(fault(CONFLICT, false)).await.unwrap_err();
        assert!(!error.is_outcome_unknown());
    }

    #[tokio::test]
    async fn a_lost_commit_is_not_forgotten() {
        let mut attempts = attempts(3, SECOND, SECOND * 10);
        attempts.again(fault(DISCONNECTED, true)).await.unwrap();
        for _ in 1..RECONNECTS {
            attempts.again(fault(DISCONNECTED, false)).await.unwrap();
        }
        assert!(attempts.attempt().lost.is_some());
        let error = attempts.again(fault(DISCONNECTED, false)).await.unwrap_err();
        assert!(error.is_outcome_unknown());
    }

    #[tokio::test]
    async fn nothing_starts_over_without_time() {
        assert!(attempts(9, SECOND, Duration::ZERO).again(fault(CONFLICT, false)).await.is_err());
    }
}
