//! Retries an operation after a conflict or a broken connection, within bounds of number and time.

use std::time::Duration;

use syncguard_core::Jitter;
use syncguard_core::LockError;
use syncguard_core::authoring::pause::Backoff;
use tokio::time::Instant;

use crate::error::Fault;

/// One attempt of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    deadline: Instant,
    request_timeout: Duration,
    /// The error of an earlier commit whose answer was lost; the commit may have been carried out.
    pub(crate) lost: Option<LockError>,
}

impl Attempt {
    /// Returns the deadline of the next call.
    pub(crate) fn call_deadline(&self) -> Instant {
        self.deadline.min(Instant::now() + self.request_timeout)
    }

    /// Returns how long the next call may take.
    pub(crate) fn call_bound(&self) -> Duration {
        self.call_deadline().saturating_duration_since(Instant::now())
    }
}

/// The retries and the time that an operation has left.
pub(crate) struct Attempts {
    attempt: Attempt,
    conflicts: u32,
    reconnects: u32,
    failures: u32,
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
        let deadline = Instant::now() + total;
        Self {
            attempt: Attempt { deadline, request_timeout, lost: None },
            conflicts,
            reconnects: Self::RECONNECTS,
            failures: 0,
        }
    }

    /// Returns the current attempt.
    pub(crate) fn attempt(&self) -> Attempt {
        self.attempt.clone()
    }

    /// Runs an operation, and runs it again after faults that allow a retry.
    ///
    /// # Errors
    ///
    /// As [`again`](Self::again).
    pub(crate) async fn run<T, F>(
        mut self,
        mut operation: impl FnMut(Attempt) -> F,
    ) -> Result<T, LockError>
    where
        F: Future<Output = Result<T, Fault>>,
    {
        loop {
            match operation(self.attempt()).await {
                Ok(output) => return Ok(output),
                Err(fault) => self.again(fault).await?,
            }
        }
    }

    /// Waits and returns if the operation should start over with a read.
    ///
    /// # Errors
    ///
    /// The fault's error if the operation should not start over; its outcome is marked unknown if the
    /// outcome of an earlier commit is unknown.
    pub(crate) async fn again(&mut self, fault: Fault) -> Result<(), LockError> {
        let tries = if fault.is_conflict {
            Some(&mut self.conflicts)
        } else if fault.subject.needs_new_connection() && !fault.is_timeout() {
            Some(&mut self.reconnects)
        } else {
            None
        };
        let left = tries.and_then(|tries| {
            *tries = tries.checked_sub(1)?;
            Some(())
        });
        let error = fault.error;
        self.failures = self.failures.saturating_add(1);
        let pause = Self::PAUSES.pause(self.failures);
        if left.is_none() || self.attempt.deadline <= Instant::now() + pause {
            return Err(self.final_error(error));
        }
        if error.is_outcome_unknown() {
            self.attempt.lost.get_or_insert(error);
        }
        tokio::time::sleep(pause).await;
        Ok(())
    }

    fn final_error(&self, error: LockError) -> LockError {
        if self.attempt.lost.is_some() { error.with_unknown_outcome() } else { error }
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
