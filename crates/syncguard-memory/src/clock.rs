//! Unix time that follows tokio's clock.

use std::time::SystemTime;

use syncguard_core::{LockError, Timestamp};
use tokio::time::Instant;

/// The wall clock at the time the backend was made, plus the time that tokio's clock has counted since.
/// The clock never goes back, and stands still while a test has paused tokio's clock.
#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    unix: SystemTime,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self::starting_at(SystemTime::now())
    }

    pub(crate) fn starting_at(unix: SystemTime) -> Self {
        Self { epoch: Instant::now(), unix }
    }

    pub(crate) fn now(&self) -> Result<Timestamp, LockError> {
        Timestamp::from_system_time(self.unix + self.epoch.elapsed())
    }
}
