//! The clock of this machine.

use std::time::SystemTime;

use syncguard_core::{LockError, Timestamp};

/// The clock of a backend: [`SystemTime::now`], unless a test replaces it. Locks in etcd live by the clocks of the clients.
pub(crate) type Clock = dyn Fn() -> SystemTime + Send + Sync;

/// Returns the current time in the form that locks store.
pub(crate) fn timestamp(clock: &Clock) -> Result<Timestamp, LockError> {
    Timestamp::from_system_time(clock())
        .map_err(|_| LockError::internal("this machine's clock is out of range"))
}
