//! A tick, as its work sees it, and the fences of a tick.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use syncguard_core::authoring::recipes::FenceWindow;
use syncguard_core::contract::FenceToken;
use syncguard_core::{Fence, Held, LockError, ReleaseResult, Timestamp};
use tokio::sync::SetOnce;

/// The fences of one tick: a thousand for each second since the Unix epoch. A tick has a whole second, so its first fence is
/// its time in milliseconds.
const FENCES: u64 = 1000;

/// The most attempts of a tick. The last fence of a tick says that the tick is done.
pub(super) const MOST_ATTEMPTS: u16 = 999;

/// The window of a tick with this many attempts in all.
pub(super) fn window(tick: Timestamp, attempts: u16) -> Result<FenceWindow, LockError> {
    let first = tick.as_millis();
    let window =
        FenceWindow::new(Fence::new(first)?, Fence::new(first + u64::from(attempts) - 1)?)?;
    Ok(window.with_not_before(tick))
}

/// A window that opens 28 000 years from now.
pub(super) fn never() -> Result<FenceWindow, LockError> {
    let window = FenceWindow::new(Fence::new(1)?, Fence::MAX)?;
    Ok(window.with_not_before(Timestamp::from_millis(Fence::MAX.get())?))
}

/// The counter of a tick that is done.
pub(super) fn done(tick: Timestamp) -> Result<Fence, LockError> {
    Fence::new(tick.as_millis() + FENCES - 1)
}

/// A tick and what its counter says of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Counted {
    pub(super) tick: Timestamp,
    /// The number of attempts that began, or 1000 if the tick is done.
    pub(super) attempts: u16,
}

impl Counted {
    /// The first second of 2020. Plain locks count to no fence of a later tick.
    const FIRST: u64 = 1_577_836_800;

    /// `None` if the key was never locked for a tick.
    pub(super) fn new(counter: Fence) -> Option<Self> {
        let (second, rest) = (counter.get() / FENCES, counter.get() % FENCES);
        let tick = Timestamp::from_millis(second.checked_mul(1000)?).ok()?;
        let attempts = u16::try_from(rest).ok()? + 1;
        (second >= Self::FIRST).then_some(Self { tick, attempts })
    }

    pub(super) fn is_done(self) -> bool {
        self.attempts > MOST_ATTEMPTS
    }

    /// True if no further attempt follows when a tick has this many in all.
    pub(super) fn is_over(self, attempts: u16) -> bool {
        self.attempts >= attempts
    }
}

/// A tick, as its work sees it.
///
/// The fence, and how long the lock of this attempt is safe, are those of [`Held`], to which the tick dereferences. The fence
/// is the time of the tick in milliseconds since the Unix epoch, plus the number of earlier attempts: it is larger than the
/// fences of all earlier ticks and attempts.
///
/// A `Tick` is cheap to clone and to send to other tasks. It does not keep the lock, and dropping it does nothing.
#[derive(Clone)]
#[non_exhaustive]
pub struct Tick<F: FenceToken = Fence> {
    /// The time of the tick in the schedule.
    pub scheduled_at: Timestamp,
    /// The number of this attempt: 1 for the first.
    pub attempt: u16,
    /// How late the work begins, by this machine's clock. Zero if the clock is behind.
    pub late_by: Duration,
    held: Held<F>,
    is_given_up: Arc<AtomicBool>,
    released: Arc<SetOnce<Result<ReleaseResult, LockError>>>,
}

impl<F: FenceToken> Tick<F> {
    pub(super) fn new(held: Held<F>, scheduled_at: Timestamp, late_by: Duration) -> Self {
        let fence = held.fence().fence().map_or(0, Fence::get);
        let attempt = fence.saturating_sub(scheduled_at.as_millis()).min(u64::from(MOST_ATTEMPTS));
        // At most 999.
        let attempt = u16::try_from(attempt).unwrap_or(MOST_ATTEMPTS) + 1;
        let (is_given_up, released) = (Arc::default(), Arc::default());
        Self { scheduled_at, attempt, late_by, held, is_given_up, released }
    }

    /// The lock of this attempt, to pass on.
    #[must_use]
    pub fn held(&self) -> Held<F> {
        self.held.clone()
    }

    /// Says that this attempt has failed: the tick is not marked as done when the work ends. Another attempt follows, of
    /// this process or another one, if attempts are left.
    pub fn give_up(&self) {
        self.is_given_up.store(true, Ordering::Release);
    }

    /// Waits until the lock of this attempt is given back after the end of the work, and returns the answer of the store:
    /// [`NotHeld`](ReleaseResult::NotHeld) if another process has taken the lock away meanwhile. If the lock had expired
    /// when the store answered, the answer is `Released` if the tick is marked as done all the same.
    ///
    /// The work itself must not wait for it, since the lock is kept until the work ends. If the future of the recipe is
    /// dropped before, this waits for ever.
    ///
    /// # Errors
    ///
    /// The store's failures; the lock then ends with its TTL at the latest.
    ///
    /// # Cancel safety
    ///
    /// Safe: call it again at any time.
    pub async fn released(&self) -> Result<ReleaseResult, LockError> {
        self.released.wait().await.clone()
    }

    pub(super) fn set_released(&self, released: Result<ReleaseResult, LockError>) {
        // A lock is given back once.
        let _ = self.released.set(released);
    }

    pub(super) fn is_given_up(&self) -> bool {
        self.is_given_up.load(Ordering::Acquire)
    }
}

impl<F: FenceToken> Deref for Tick<F> {
    type Target = Held<F>;

    fn deref(&self) -> &Held<F> {
        &self.held
    }
}

impl<F: FenceToken> fmt::Debug for Tick<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tick")
            .field("scheduled_at", &self.scheduled_at)
            .field("attempt", &self.attempt)
            .finish_non_exhaustive()
    }
}
