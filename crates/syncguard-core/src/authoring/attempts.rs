//! Trying an operation again, within bounds of number and time.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use super::failure::{FailureSubject, Fault};
use crate::util::pause::RetryPauses;
use crate::value::LockError;

/// One attempt of an operation on a store whose writes have preconditions.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Attempt {
    deadline: Instant,
    request_timeout: Duration,
    /// The error of an earlier write whose answer was lost; the write may have been carried out.
    pub lost: Option<LockError>,
}

impl Attempt {
    /// The deadline of the next call.
    #[must_use]
    pub fn call_deadline(&self) -> Instant {
        self.deadline.min(Instant::now() + self.request_timeout)
    }

    /// How long the next call may take.
    pub(crate) fn call_bound(&self) -> Duration {
        self.call_deadline().saturating_duration_since(Instant::now())
    }
}

/// For authors of backends whose writes have preconditions: how often an operation starts over after which faults.
#[derive(Clone, Copy, Debug)]
#[allow(clippy::exhaustive_structs, reason = "a constant of its user")]
pub struct Retries {
    /// After conflicts with other clients.
    pub conflicts: u32,
    /// After failures of the connection or the server that were noticed in time.
    pub failures: u32,
    /// After calls without an answer in time.
    pub silences: u32,
    /// The pause before each.
    pub pauses: RetryPauses,
}

/// For authors of backends whose writes have preconditions: the attempts of one operation, until its time is over.
#[derive(Debug)]
pub struct Attempts {
    attempt: Attempt,
    left: Retries,
    faults: u32,
}

impl Attempts {
    /// Attempts with these retries, each call within `request_timeout`, and all of them within `total`.
    #[must_use]
    pub fn new(retries: Retries, request_timeout: Duration, total: Duration) -> Self {
        let attempt = Attempt { deadline: Instant::now() + total, request_timeout, lost: None };
        Self { attempt, left: retries, faults: 0 }
    }

    /// The current attempt.
    #[must_use]
    pub fn attempt(&self) -> Attempt {
        self.attempt.clone()
    }

    /// Runs an operation, and runs it again after faults after which that may help.
    ///
    /// # Errors
    ///
    /// As [`again`](Self::again).
    pub async fn run<T, F>(
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

    /// Waits, and returns if the operation should start over with a read.
    ///
    /// # Errors
    ///
    /// The error itself if another attempt does not help, or if no time is left for it; its outcome is marked unknown if
    /// the outcome of an earlier write is unknown.
    ///
    /// # Cancel safety
    ///
    /// Not safe: the pause counts as over.
    pub async fn again(&mut self, fault: Fault) -> Result<(), LockError> {
        let may_help = self.counts_down(&fault);
        let error = fault.error;
        self.faults = self.faults.saturating_add(1);
        let pause = self.left.pauses.pause(self.faults);
        if !may_help || self.attempt.deadline <= Instant::now() + pause {
            let is_unknown = self.attempt.lost.is_some();
            return Err(if is_unknown { error.with_unknown_outcome() } else { error });
        }
        if error.is_outcome_unknown() {
            self.attempt.lost.get_or_insert(error);
        }
        sleep(pause).await;
        Ok(())
    }

    fn counts_down(&mut self, fault: &Fault) -> bool {
        let tries = match fault.subject {
            _ if fault.is_conflict() => &mut self.left.conflicts,
            FailureSubject::Request => return false,
            _ if fault.is_timeout() => &mut self.left.silences,
            _ => &mut self.left.failures,
        };
        let left = tries.checked_sub(1);
        *tries = left.unwrap_or_default();
        left.is_some()
    }
}
