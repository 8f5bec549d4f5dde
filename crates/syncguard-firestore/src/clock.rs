//! The clock of this machine.

use std::time::SystemTime;

use syncguard_core::{LockError, Timestamp};

/// Where a backend takes the time from: [`SystemTime::now`] unless a test puts another in its place. Locks
/// in Firestore live by the clocks of its clients.
pub(crate) type Clock = dyn Fn() -> SystemTime + Send + Sync;

/// The time now, as locks store it.
pub(crate) fn timestamp(clock: &Clock) -> Result<Timestamp, LockError> {
    Timestamp::from_system_time(clock())
        .map_err(|_| LockError::internal("this machine's clock is before 1970 or absurdly late"))
}
