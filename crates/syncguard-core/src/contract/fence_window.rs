//! Acquires that are granted only with a fence in a window.

use std::time::Duration;

use crate::value::{Fence, LockError, Timestamp};

/// The fence that an acquire asks for: the fence counter of a key then remembers what the key was locked for last.
///
/// The lock is granted only while the key's counter is below a limit, and with a fence that is at least a given number.
/// Counters never fall, so of all acquires with the same window no more are granted than the window has fences: a window
/// from 5000 and below 5000 is granted once. A schedule that gives each tick a window of its own starts each tick at most
/// once, however the clocks of its processes differ.
///
/// A backend says in its [capabilities](super::BackendCapabilities::supports_fence_windows) whether it keeps windows.
///
/// ```
/// use syncguard_core::Fence;
/// use syncguard_core::authoring::recipes::FenceWindow;
///
/// let tick = Fence::new(1_780_000_000_000)?;
/// let once = FenceWindow::new(tick, tick)?;
/// # let _ = once;
/// # Ok::<(), syncguard_core::LockError>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FenceWindow {
    at_least: Fence,
    below: Fence,
    not_before: Option<Timestamp>,
}

impl FenceWindow {
    /// A window of fences from `at_least`, for a counter below `below`.
    ///
    /// # Errors
    ///
    /// `InvalidArgument` unless `1 <= at_least <= below <= `[`Fence::MAX`].
    pub fn new(at_least: Fence, below: Fence) -> Result<Self, LockError> {
        if at_least == Fence::ZERO || at_least > below || below > Fence::MAX {
            return Err(LockError::invalid_argument(format!(
                "a fence window from {at_least} below {below}; from 1 up to the limit, and a limit up to {} \
                 are allowed",
                Fence::MAX
            )));
        }
        Ok(Self { at_least, below, not_before: None })
    }

    /// Grants the lock only from this time on, by the store's time authority.
    #[must_use]
    pub const fn with_not_before(mut self, time: Timestamp) -> Self {
        self.not_before = Some(time);
        self
    }

    /// The lock gets this fence, or the counter's next fence if that is larger.
    #[must_use]
    pub const fn at_least(&self) -> Fence {
        self.at_least
    }

    /// The lock is granted only if the counter is below this.
    #[must_use]
    pub const fn below(&self) -> Fence {
        self.below
    }

    /// The lock is granted only from this time on, by the store's time authority.
    #[must_use]
    pub const fn not_before(&self) -> Option<Timestamp> {
        self.not_before
    }

    /// For authors of backends: the answer to an acquire of a key whose counter has reached the window's limit, whether
    /// the key is locked or not.
    #[must_use]
    pub fn refuses_counter(&self, counter: Fence) -> Option<Refusal> {
        (counter >= self.below).then_some(Refusal::Taken { counter })
    }

    /// For authors of backends: the answer to an acquire at this time of the store, if that is before the window's,
    /// whether the key is locked or not. [`refuses_counter`](Self::refuses_counter) comes first.
    #[must_use]
    pub fn refuses_time(&self, now: Timestamp) -> Option<Refusal> {
        let wait = self.not_before? - now;
        (!wait.is_zero()).then_some(Refusal::TooEarly { wait })
    }
}

/// Why an acquire with a [`FenceWindow`] was not granted, if not because another holder has the lock. The store has
/// changed nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The counter has reached the window's limit, so no acquire with this window is granted any more. The key may be
    /// locked or free.
    Taken {
        /// The key's fence counter.
        counter: Fence,
    },
    /// The window's time has not come, by the store's time authority. The key may be locked or free.
    TooEarly {
        /// How long until the window's time, if the store's clock is right.
        wait: Duration,
    },
}
