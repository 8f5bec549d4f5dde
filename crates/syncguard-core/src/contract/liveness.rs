//! The rule that says whether a lock is live.

use std::time::Duration;

use crate::value::Timestamp;

/// How long after its expiry a lock still counts as live, on every backend.
///
/// The tolerance covers small differences between clocks, and delays rivals; the holder must stop at
/// the expiry itself. It is not configurable, because a fleet whose members disagree on it is unsafe.
pub const TIME_TOLERANCE: Duration = Duration::from_secs(1);

/// The step of the stores' clocks, which count whole milliseconds. A time that a store has reported may be so much too
/// early.
pub const TIME_STEP: Duration = Duration::from_millis(1);

/// True if a lock is live: `expires_at > now - tolerance`. TypeScript: `isLive`.
///
/// Acquire, release, extend, `is_locked` and lookup all decide by this predicate. It never fails.
///
/// ```
/// use syncguard_core::contract::is_live;
/// use syncguard_core::Timestamp;
///
/// let expiry = Timestamp::from_millis(10_000)?;
/// assert!(is_live(expiry, Timestamp::from_millis(10_999)?));
/// assert!(!is_live(expiry, Timestamp::from_millis(11_000)?));
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[must_use]
pub const fn is_live(expires_at: Timestamp, now: Timestamp) -> bool {
    expires_at.as_millis() as u128 + TIME_TOLERANCE.as_millis() > now.as_millis() as u128
}
