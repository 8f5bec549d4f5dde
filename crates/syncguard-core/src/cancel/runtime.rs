//! The check that a runtime is there.

use crate::rt;
use crate::value::LockError;

/// Checks that the current context is a runtime with timers.
///
/// # Errors
///
/// `InvalidArgument` outside a tokio runtime, or in one without timers. Only a panic shows that a runtime has
/// no timers, so with `panic = "abort"` this check ends the process, with tokio's own message.
pub(crate) fn check_runtime() -> Result<(), LockError> {
    if rt::is_usable() {
        return Ok(());
    }
    Err(LockError::invalid_argument(
        "called outside a tokio runtime, or in one without timers; call it in one with enable_time or enable_all",
    ))
}
