//! Taking a lock with a fence in a window, and giving it back with a parting: for recipes.

use std::fmt;

use super::call::{Call, Tried};
use super::config::LockConfig;
use super::guard::{LockGuard, Parting};
use crate::backend::LockBackend;
use crate::contract::fence_window::{FenceWindow, Refusal};
use crate::contract::response::{Contention, ReleaseResult};
use crate::rt::Instant;
use crate::value::{LockError, LockId};

/// The answer of [`try_acquire_in_window`].
#[must_use = "an acquired lock is given back as soon as its guard is dropped"]
pub enum TriedInWindow<B: LockBackend> {
    /// The lock is granted. It is held while the guard lives and is valid.
    Acquired(LockGuard<B>),
    /// Another holder has the lock, and the key's counter is below the window's limit.
    Busy(Contention),
    /// The window's limit is reached, or its time has not come.
    Refused(Refusal),
}

impl<B: LockBackend> fmt::Debug for TriedInWindow<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Acquired(guard) => f.debug_tuple("Acquired").field(guard).finish(),
            Self::Busy(contention) => f.debug_tuple("Busy").field(contention).finish(),
            Self::Refused(refusal) => f.debug_tuple("Refused").field(refusal).finish(),
        }
    }
}

/// For authors of recipes: takes a lock if it is free right now and its fence is in the window.
///
/// This function makes one attempt. It does not use the retry settings of the configuration, and it does not look at the
/// queue of this process.
///
/// # Errors
///
/// As [`try_acquire`](crate::try_acquire()), and `InvalidArgument` from a backend that does not
/// [support fence windows](crate::contract::BackendCapabilities::supports_fence_windows). After an error whose
/// [outcome is unknown](LockError::is_outcome_unknown) the counter may have been raised, so the fences up to
/// `at_least` may be used up.
///
/// # Cancel safety
///
/// Dropping the future leaves no lock behind. The counter may have been raised.
pub async fn try_acquire_in_window<B, C>(
    backend: &B,
    config: C,
    window: FenceWindow,
) -> Result<TriedInWindow<B>, LockError>
where
    B: LockBackend,
    C: Into<LockConfig>,
{
    let config = config.into();
    let call = Call::new(backend, &config)?;
    let capabilities = backend.capabilities();
    if !capabilities.supports_fence_windows {
        return Err(LockError::invalid_argument(format!(
            "the backend {} does not support fence windows, which ticks need",
            capabilities.backend
        )));
    }
    let mut observed = call.observe(LockId::generate()?);
    observed.on_head();
    let (lock_id, sent) = (observed.next_attempt(), Instant::now());
    let tried = call.once_in_window(lock_id, sent, window).await;
    let result = tried.and_then(|tried| match tried {
        Ok(Tried::Granted(guard)) => Ok(TriedInWindow::Acquired(guard)),
        Ok(Tried::Busy(contention)) => Ok(TriedInWindow::Busy(contention)),
        Ok(Tried::Late) => Err(call.late_error()),
        Err(refusal) => Ok(TriedInWindow::Refused(refusal)),
    });
    observed.end(result, |tried| matches!(tried, TriedInWindow::Acquired(_)))
}

/// For authors of recipes: [releases](LockGuard::release) a lock and leaves this behind, in the one request of the
/// release. A minimum hold of the lock is replaced, unless the parting is [`Parting::Free`].
///
/// # Errors
///
/// As [`LockGuard::release`], and `InvalidArgument` for a counter above [`Fence::MAX`](crate::Fence::MAX).
///
/// # Cancel safety
///
/// Safe: a dropped release continues in the background, with its parting.
pub async fn release_as<B: LockBackend>(
    guard: LockGuard<B>,
    parting: Parting,
) -> Result<ReleaseResult, LockError> {
    guard.part(parting).await
}
