//! The lock or permit that a command asks for.

use std::time::Duration;

use syncguard::LockConfig;

use super::sharing::Sharing;
use crate::exit::Status;

/// The requested lock or permit.
pub(crate) struct LockRequest {
    /// The settings of a permit and of a read/write lock as well.
    pub(super) config: LockConfig,
    pub(super) permits: Option<u32>,
    pub(super) sharing: Option<Sharing>,
    /// How long an outage of the store is ridden out.
    pub(super) ride_out: Duration,
    /// The exit status if another process holds the lock.
    pub(super) conflict: Status,
}

impl LockRequest {
    /// A lock with exactly this configuration.
    pub(crate) fn of_lock(config: LockConfig, conflict: Status) -> Self {
        Self { config, permits: None, sharing: None, ride_out: Duration::ZERO, conflict }
    }

    /// Returns true for a lock with one holder, under the key itself.
    pub(super) fn is_plain(&self) -> bool {
        self.permits.is_none() && self.sharing.is_none()
    }

    pub(super) fn waits(&self) -> bool {
        self.config.acquisition().max_retries > 0
    }
}
