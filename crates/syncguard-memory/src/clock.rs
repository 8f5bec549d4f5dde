//! Unix time that follows tokio's clock.

use std::time::SystemTime;

use syncguard_core::{LockError, Timestamp};
use tokio::time::Instant;

/// The wall clock as it was when the backend was made, moved on by tokio's clock: it never goes
/// back, and it stands still while a test has tokio's clock paused.
#[derive(Debug)]
pub(crate) struct Clock {
    epoch: Instant,
    unix: SystemTime,
}

impl Clock {
    pub(crate) fn new() -> Self {
        Self { epoch: Instant::now(), unix: SystemTime::now() }
    }

    pub(crate) fn now(&self) -> Result<Timestamp, LockError> {
        Timestamp::from_system_time(self.unix + self.epoch.elapsed())
    }
}
