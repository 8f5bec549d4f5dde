//! The lock or permit that a command asks for.

use std::time::Duration;

use syncguard::{AcquisitionOptions, AutoExtend, LockConfig};

use crate::exit::Status;

/// The requested lock or permit.
pub(crate) struct LockRequest {
    pub(super) config: LockConfig,
    /// For a permit; the configuration has that of a lock.
    pub(super) auto_extend: AutoExtend,
    pub(super) acquisition: AcquisitionOptions,
    pub(super) min_hold: Option<Duration>,
    pub(super) permits: Option<u32>,
    /// How long an outage of the store is ridden out.
    pub(super) ride_out: Duration,
    #[cfg(feature = "permits")]
    pub(super) sharing: Option<super::sharing::Sharing>,
    /// The exit status if another process holds the lock.
    pub(super) conflict: Status,
}

impl LockRequest {
    /// A lock with exactly this configuration.
    pub(crate) fn of_lock(
        config: LockConfig,
        acquisition: AcquisitionOptions,
        conflict: Status,
    ) -> Self {
        let config = config.with_acquisition(acquisition);
        let auto_extend = AutoExtend::new();
        Self {
            config,
            auto_extend,
            acquisition,
            min_hold: None,
            permits: None,
            ride_out: Duration::ZERO,
            #[cfg(feature = "permits")]
            sharing: None,
            conflict,
        }
    }

    /// Returns true for a lock with one holder, under the key itself.
    pub(super) fn is_plain(&self) -> bool {
        #[cfg(feature = "permits")]
        let is_shared = self.sharing.is_some();
        #[cfg(not(feature = "permits"))]
        let is_shared = false;
        self.permits.is_none() && !is_shared
    }

    pub(super) fn waits(&self) -> bool {
        self.acquisition.max_retries > 0
    }
}
