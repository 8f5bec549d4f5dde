//! When the record of an expired lock may be deleted.

use std::time::Duration;

use crate::contract::liveness::TIME_TOLERANCE;
use crate::value::Timestamp;

/// How long a backend that deletes records keeps the record of a lock that is no longer live, because "expired"
/// tells a holder more than "not found".
pub const CLEAN_UP_GUARD: Duration = Duration::from_secs(2);

/// True if a record may be deleted: its lock has not been live for the time of the [guard](CLEAN_UP_GUARD).
#[must_use]
pub const fn is_clearable(expires_at: Timestamp, now: Timestamp) -> bool {
    let kept = TIME_TOLERANCE.as_millis() + CLEAN_UP_GUARD.as_millis();
    expires_at.as_millis() as u128 + kept <= now.as_millis() as u128
}
