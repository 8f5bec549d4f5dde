//! Checks of timeouts.

use std::time::Duration;

use crate::value::{LockError, Ttl};

/// For authors of backends: checks the timeout of an option, which is 1 ms to 100 years.
///
/// A longer timeout would overflow when it is added to a point in time, which panics. `what` names the
/// timeout in the message: `dispose timeout`.
///
/// ```
/// use std::time::Duration;
/// use syncguard_core::authoring::checked_timeout;
///
/// assert!(checked_timeout("request timeout", Duration::from_secs(5)).is_ok());
/// let refused = checked_timeout("request timeout", Duration::MAX).unwrap_err();
/// assert!(refused.message().contains("1 ms to 100 years are allowed"));
/// ```
///
/// # Errors
///
/// `InvalidArgument` below one millisecond or above 100 years.
pub fn checked_timeout(what: &str, timeout: Duration) -> Result<Duration, LockError> {
    if Ttl::new(timeout).is_err() {
        return Err(LockError::invalid_argument(format!(
            "the {what} is {timeout:?}; 1 ms to 100 years are allowed"
        )));
    }
    Ok(timeout)
}

/// A task or a future that has waited for an answer for so long counts as abandoned: its runtime is not driven, or it is
/// not polled. Others go on without it. No store that works takes as long as that.
pub const ABANDONED_AFTER: Duration = Duration::from_secs(10);

/// For how long an answer may be due before it counts as missing, if earlier answers took this long at the most:
/// three times as long, and at least 100 ms. A request that a time limit cuts off earlier would have been answered.
#[must_use]
pub fn answer_patience(longest_answer: Duration) -> Duration {
    const USUAL: Duration = Duration::from_millis(100);
    longest_answer.saturating_mul(3).max(USUAL)
}
