//! Retries an operation after a conflict, or on another member after a failure, within bounds of number and time.

use std::time::Duration;

pub(crate) use syncguard_core::authoring::Attempt;
use syncguard_core::authoring::pause::Backoff;
use syncguard_core::{Jitter, LockError, authoring};

use crate::error::{Fault, Finding};

/// The retries and the time that an operation has left.
pub(crate) struct Attempts {
    attempts: authoring::Attempts,
    retries: Retries,
}

/// The retries after conflicts. Failures of members are tried again while there is time.
struct Retries {
    conflicts: u32,
}

impl Retries {
    /// Whether the operation may start over after this fault.
    fn may_help(&mut self, fault: &Fault) -> bool {
        if fault.finding != Some(Finding::Conflict) {
            return fault.subject.needs_new_connection();
        }
        let left = self.conflicts.checked_sub(1);
        self.conflicts = left.unwrap_or_default();
        left.is_some()
    }
}

impl Attempts {
    /// Only the holder of a lock changes it, so conflicts are rare: an extend and a release at once.
    const CONFLICTS: u32 = 16;
    /// An election takes one to two seconds.
    const PAUSES: Backoff = Backoff {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(200),
        jitter: Jitter::Full,
    };

    pub(crate) fn new(request_timeout: Duration, total: Duration) -> Self {
        Self {
            attempts: authoring::Attempts::new(Self::PAUSES, request_timeout, total),
            retries: Retries { conflicts: Self::CONFLICTS },
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

    use tokio::time::Instant;

    use super::*;

    fn fault(subject: FailureSubject, unknown: bool) -> Fault {
        let error = LockError::new(ErrorCode::ServiceUnavailable, "x");
        let error = if unknown { error.with_unknown_outcome() } else { error };
        Fault { subject, ..Fault::from(error) }
    }

    fn attempts(total: Duration) -> Attempts {
        Attempts::new(Duration::from_secs(1), total)
    }

    #[tokio::test(start_paused = true)]
    async fn conflicts_are_counted() {
        let mut attempts = attempts(Duration::from_secs(60));
        for _ in 0..Attempts::CONFLICTS {
            attempts.again(Fault::conflict()).await.unwrap();
        }
        assert!(!attempts.again(Fault::conflict()).await.unwrap_err().is_outcome_unknown());
    }

    #[tokio::test(start_paused = true)]
    async fn a_failure_of_the_server_is_tried_again_while_there_is_time() {
        let mut attempts = attempts(Duration::from_secs(5));
        let began = Instant::now();
        attempts.again(fault(FailureSubject::Connection, true)).await.unwrap();
        let error = loop {
            if let Err(error) = attempts.again(fault(FailureSubject::Server, false)).await {
                break error;
            }
        };
        assert!(
            began.elapsed() > Duration::from_secs(4) && began.elapsed() < Duration::from_secs(5)
        );
        assert!(attempts.attempt().lost.is_some() && error.is_outcome_unknown());
    }

    #[tokio::test(start_paused = true)]
    async fn a_refused_request_is_not_tried_again() {
        let mut attempts = attempts(Duration::from_secs(5));
        assert!(attempts.again(fault(FailureSubject::Request, false)).await.is_err());
    }
}
