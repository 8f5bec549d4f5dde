//! Trying an operation again, within bounds of number and time.

use std::future::Future;
use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::util::pause::Backoff;
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
    #[must_use]
    pub fn call_bound(&self) -> Duration {
        self.call_deadline().saturating_duration_since(Instant::now())
    }
}

/// For authors of backends whose writes have preconditions: the attempts of one operation, until its time is over.
///
/// `may_help` says after which faults another attempt may help; it may count them.
#[derive(Debug)]
pub struct Attempts<H> {
    attempt: Attempt,
    pauses: Backoff,
    failures: u32,
    may_help: H,
}

impl<H> Attempts<H> {
    /// Attempts with these pauses, each call within `request_timeout`, and all of them within `total`.
    #[must_use]
    pub fn new(pauses: Backoff, request_timeout: Duration, total: Duration, may_help: H) -> Self {
        let attempt = Attempt { deadline: Instant::now() + total, request_timeout, lost: None };
        Self { attempt, pauses, failures: 0, may_help }
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
    pub async fn run<T, E, F>(
        mut self,
        mut operation: impl FnMut(Attempt) -> F,
    ) -> Result<T, LockError>
    where
        F: Future<Output = Result<T, E>>,
        E: Into<LockError>,
        H: FnMut(&E) -> bool,
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
    pub async fn again<E>(&mut self, fault: E) -> Result<(), LockError>
    where
        E: Into<LockError>,
        H: FnMut(&E) -> bool,
    {
        let may_help = (self.may_help)(&fault);
        let error = fault.into();
        self.failures = self.failures.saturating_add(1);
        let pause = self.pauses.pause(self.failures);
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
}
