//! Retries: the twin of `retry.rs` and `error.rs` of the backend.

use std::future::Future;
use std::time::Duration;

use syncguard_core::authoring::pause::random_part;
use syncguard_core::{ErrorCode, LockError};
use tokio::time::Instant;

use crate::link::BOUND;

/// The time limit of an operation with all its calls.
const TOTAL: Duration = BOUND.saturating_mul(2);

pub(super) struct Fault {
    pub(super) error: LockError,
    pub(super) again: Again,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Again {
    No,
    /// A document changed between read and commit, and nothing was written.
    Conflict,
    /// A new connection may work at once.
    Disconnected,
}

impl Fault {
    pub(super) fn conflict() -> Self {
        let error = LockError::new(ErrorCode::ServiceUnavailable, "others were faster");
        Self { error, again: Again::Conflict }
    }
}

impl From<LockError> for Fault {
    fn from(error: LockError) -> Self {
        let is_lost = error.code() == ErrorCode::ServiceUnavailable;
        Self { error, again: if is_lost { Again::Disconnected } else { Again::No } }
    }
}

#[derive(Clone)]
pub(super) struct Attempt {
    deadline: Instant,
    /// A commit of an earlier attempt that may have been carried out.
    pub(super) lost: Option<LockError>,
}

impl Attempt {
    pub(super) fn call_deadline(&self) -> Instant {
        self.deadline.min(Instant::now() + BOUND)
    }

    pub(super) fn call_bound(&self) -> Duration {
        self.call_deadline().saturating_duration_since(Instant::now())
    }
}

pub(super) struct Attempts {
    attempt: Attempt,
    conflicts: u32,
    reconnects: u32,
    pause: Duration,
}

impl Attempts {
    pub(super) fn new() -> Self {
        Self {
            attempt: Attempt { deadline: Instant::now() + TOTAL, lost: None },
            conflicts: 24,
            reconnects: 6,
            pause: Duration::from_millis(5),
        }
    }

    pub(super) fn attempt(&self) -> Attempt {
        self.attempt.clone()
    }

    pub(super) async fn run<T, F>(
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

    pub(super) async fn again(&mut self, fault: Fault) -> Result<(), LockError> {
        let Fault { error, again } = fault;
        let left = match again {
            Again::No => None,
            Again::Conflict => self.conflicts.checked_sub(1).inspect(|left| self.conflicts = *left),
            Again::Disconnected => {
                self.reconnects.checked_sub(1).inspect(|left| self.reconnects = *left)
            }
        };
        let pause = random_part(self.pause);
        if left.is_none() || self.attempt.deadline <= Instant::now() + pause {
            return Err(self.final_error(error));
        }
        if error.is_outcome_unknown() {
            self.attempt.lost.get_or_insert(error);
        }
        tokio::time::sleep(pause).await;
        self.pause = (self.pause * 2).min(Duration::from_millis(400));
        Ok(())
    }

    fn final_error(&self, error: LockError) -> LockError {
        if self.attempt.lost.is_some() { error.with_unknown_outcome() } else { error }
    }
}
