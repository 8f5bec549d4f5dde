//! Retries an operation after a conflict or a broken connection, within bounds of number and time.

use std::time::Duration;

pub(crate) use syncguard_core::authoring::Attempt;
use syncguard_core::authoring::pause::Backoff;
use syncguard_core::{Jitter, LockError, authoring};

use crate::error::Fault;

/// The retries and the time that an operation has left.
pub(crate) struct Attempts {
    attempts: authoring::Attempts,
    retries: Retries,
}

/// The retries after conflicts and after broken connections.
struct Retries {
    conflicts: u32,
    reconnects: u32,
}

impl Retries {
    /// Whether the operation may start over after this fault.
    fn may_help(&mut self, fault: &Fault) -> bool {
        let tries = if fault.is_conflict {
            &mut self.conflicts
        } else if fault.subject.needs_new_connection() && !fault.is_timeout() {
            &mut self.reconnects
        } else {
            return false;
        };
        let left = tries.checked_sub(1);
        *tries = left.unwrap_or_default();
        left.is_some()
    }
}

impl Attempts {
    /// The calls after a broken call may still fail with the end of the same connection: on a busy machine,
    /// the second to the fifth call did.
    const RECONNECTS: u32 = 6;
    const PAUSES: Backoff = Backoff {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(400),
        jitter: Jitter::Full,
    };

    pub(crate) fn new(conflicts: u32, request_timeout: Duration, total: Duration) -> Self {
        Self {
            attempts: authoring::Attempts::new(Self::PAUSES, request_timeout, total),
            retries: Retries { conflicts, reconnects: Self::RECONNECTS },
        }
    }

    /// Returns the current attempt.
    pub(crate) fn attempt(&self) -> Attempt {
        self.attempts.attempt()
    }

    /// Runs an operation, and runs it again after faults that allow a retry: see [`authoring::Attempts::run`].
    pub(crate) async fn run<T, F>(self, operation: impl FnMut(Attempt) -> F) -> Result<T, LockError>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        let Self { attempts, mut retries } = self;
        attempts.run(operation, |fault| retries.may_help(fault)).await
    }

    /// Waits, and returns if the operation should start over with a read: see [`authoring::Attempts::again`].
    pub(crate) async fn again(&mut self, fault: Fault) -> Result<(), LockError> {
        let may_help = self.retries.may_help(&fault);
        self.attempts.again(fault.into(), may_help).await
    }
}

#[cfg(test)]
mod tests {
    use syncguard_core::ErrorCode;
    use syncguard_core::authoring::FailureSubject;

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

    fn attempts(conflicts: u32) -> Attempts {
        Attempts::new(conflicts, Duration::from_secs(1), Duration::from_secs(10))
    }

    #[tokio::test]
    async fn conflicts_are_counted() {
        let mut attempts = attempts(3);
        for _ in 0..3 {
            attempts.again(fault(CONFLICT, false)).await.unwrap();
        }
        let error = attempts.again(fault(CONFLICT, false)).await.unwrap_err();
        assert!(!error.is_outcome_unknown());
    }

    #[tokio::test]
    async fn a_lost_commit_is_not_forgotten() {
        let mut attempts = attempts(3);
        attempts.again(fault(DISCONNECTED, true)).await.unwrap();
        for _ in 1..Attempts::RECONNECTS {
            attempts.again(fault(DISCONNECTED, false)).await.unwrap();
        }
        assert!(attempts.attempt().lost.is_some());
        let error = attempts.again(fault(DISCONNECTED, false)).await.unwrap_err();
        assert!(error.is_outcome_unknown());
    }

    #[tokio::test]
    async fn nothing_starts_over_without_time() {
        let mut attempts = Attempts::new(9, Duration::from_secs(1), Duration::ZERO);
        assert!(attempts.again(fault(CONFLICT, false)).await.is_err());
    }
}
