//! When the record of an expired lock may be cleared away.

use std::time::Duration;

use crate::Timestamp;
use crate::contract::TIME_TOLERANCE;

/// How long a backend keeps the record of a lock that is not live any more, wherever it clears records
/// away: "expired" says more to a holder than "not found".
pub const CLEAN_UP_GUARD: Duration = Duration::from_secs(2);

/// Whether a record may be cleared away: its lock has not been live for the [guard](CLEAN_UP_GUARD).
#[must_use]
pub const fn is_clearable(expires_at: Timestamp, now: Timestamp) -> bool {
    let kept = TIME_TOLERANCE.as_millis() + CLEAN_UP_GUARD.as_millis();
    expires_at.as_millis() as u128 + kept <= now.as_millis() as u128
}
