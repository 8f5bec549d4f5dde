//! Retries an operation after a conflict, or on another member after a failure, within bounds of number and time.

use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::pause::random_part;
use tokio::time::Instant;

use crate::error::{Fault, Finding};

/// One attempt of an operation.
#[derive(Clone, Debug)]
pub(crate) struct Attempt {
    deadline: Instant,
    request_timeout: Duration,
    /// The error of an earlier write whose answer was lost; the write may have been carried out.
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
    pause: Duration,
}

impl Attempts {
    /// Only the holder of a lock changes it, so conflicts are rare: an extend and a release at once.
    const CONFLICTS: u32 = 16;
    const FIRST_PAUSE: Duration = Duration::from_millis(5);
    /// An election takes one to two seconds.
    const LONGEST_PAUSE: Duration = Duration::from_millis(200);

    pub(crate) fn new(request_timeout: Duration, total: Duration) -> Self {
        let deadline = Instant::now() + total;
        Self {
            attempt: Attempt { deadline, request_timeout, lost: None },
            conflicts: Self::CONFLICTS,
            pause: Self::FIRST_PAUSE,
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
    /// outcome of an earlier write is unknown.
    pub(crate) async fn again(&mut self, fault: Fault) -> Result<(), LockError> {
        let may_help = if fault.finding == Some(Finding::Conflict) {
            let left = self.conflicts.checked_sub(1);
            self.conflicts = left.unwrap_or_default();
            left.is_some()
        } else {
            fault.subject.needs_new_connection()
        };
        let error = fault.error;
        let pause = random_part(self.pause);
        if !may_help || self.attempt.deadline <= Instant::now() + pause {
            return Err(self.final_error(error));
        }
        if error.is_outcome_unknown() {
            self.attempt.lost.get_or_insert(error);
        }
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(Self::LONGEST_PAUSE);
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
