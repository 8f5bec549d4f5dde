//! A connection in use.

use std::sync::atomic::{AtomicU64, Ordering};

use fred::error::{Error as DriverError, ErrorKind};
use syncguard_core::LockError;
use tokio::time::Instant;

use crate::driver::Target;
use crate::error::{self, Stage};
use crate::service::Service;

/// A connection in use. Calls in flight hold it, so a connection that is replaced ends with its last call.
pub(crate) struct Live {
    pub(crate) service: Box<dyn Service>,
    /// Answers of the connection, counted for each section.
    answers: Box<[AtomicU64]>,
    opened: Instant,
    /// When the last call began, in ms after `opened`.
    used: AtomicU64,
}

impl Live {
    /// After this time without a call, a lost connection may not have been noticed yet: the process may have stood still.
    const IDLE: u64 = 1_000;

    pub(crate) fn new(service: Box<dyn Service>, sections: usize) -> Self {
        let answers = (0..sections).map(|_| AtomicU64::new(0)).collect();
        Self { service, answers, opened: Instant::now(), used: AtomicU64::new(0) }
    }

    /// A connection in the place of this one.
    pub(crate) fn replaced_by(&self, service: Box<dyn Service>) -> Self {
        Self::new(service, self.answers.len())
    }

    /// Notes a call. Returns true if it is the first one for a while.
    pub(crate) fn was_idle(&self) -> bool {
        let now = u64::try_from(self.opened.elapsed().as_millis()).unwrap_or(u64::MAX);
        now.saturating_sub(self.used.swap(now, Ordering::Relaxed)) >= Self::IDLE
    }

    /// The number of answers from a section.
    pub(crate) fn answers(&self, target: Target) -> u64 {
        self.answers.get(target.section).map_or(0, |count| count.load(Ordering::Relaxed))
    }

    pub(crate) fn count_answer(&self, target: Target) {
        if let Some(count) = self.answers.get(target.section) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns whether any answer has come.
    pub(crate) fn has_answered(&self) -> bool {
        self.answers.iter().any(|count| count.load(Ordering::Relaxed) > 0)
    }

    /// The error of a call. If there was no connection over a client of the program, it says why.
    pub(crate) fn explain(&self, error: &DriverError, stage: Stage) -> LockError {
        match (error.kind(), self.service.refusal()) {
            (ErrorKind::Canceled, Some(refusal)) => error::from_driver(&refusal, Stage::Connecting),
            _ => error::from_driver(error, stage),
        }
    }
}
