//! What happens around a lock that its backend cannot see.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::authoring::contain;
use crate::{ErrorCode, Key, LockId, LossReason};

/// Hears how long locks were waited for, how long they were held, and which were lost: for
/// decorators such as telemetry, which supply one through
/// [`LockBackend::client_state`](crate::LockBackend::client_state).
///
/// A backend sees single operations. That ten of them were one [`acquire`](crate::acquire()), and when a
/// guard's lock ended, is known to this crate alone, and said here. Without an observer nothing of
/// it is computed: no clock is read and nothing is allocated.
///
/// It is called in the midst of locking: it must be quick and must not block. A panic in it is
/// contained.
///
/// ```
/// use syncguard_core::contract::ClientState;
/// use syncguard_core::observe::{LockObserver, Observation};
///
/// let observer = LockObserver::new(|observation| {
///     if let Observation::Hold(hold) = observation {
///         println!("{:?} was held for {:?}", hold.key, hold.held);
///     }
/// });
/// let defaults = ClientState::default().with_observer(observer);
/// ```
#[derive(Clone, Default)]
pub struct LockObserver {
    listener: Option<Arc<Observe>>,
    logs: bool,
}

type Observe = dyn Fn(&Observation) + Send + Sync;

/// What a [`LockObserver`] hears of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Observation {
    /// Somebody began to try for a lock. An [`Acquisition`](Self::Acquisition) follows.
    AcquisitionBegan(Began),
    /// A guard was made. A [`Hold`](Self::Hold) follows, unless the guard is forgotten.
    HoldBegan(Began),
    /// Somebody stopped trying for a lock, with or without success.
    Acquisition(AcquisitionObserved),
    /// A lock that a guard held is over.
    Hold(HoldObserved),
}

/// The beginning of a call that wants a lock, or of a hold.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Began {
    /// What is to be locked, or is locked.
    pub key: Key,
    /// The lock id of the first attempt, or of the lock.
    pub lock_id: LockId,
    /// What the lock is part of: see [`with_recipe`](crate::LockConfig::with_recipe).
    pub recipe: Option<&'static str>,
}

/// The end of one call of [`acquire`](crate::acquire()), [`try_acquire`](crate::try_acquire()) or
/// [`lock`](crate::lock()). A call refused for its arguments, or cancelled before it began, is not observed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcquisitionObserved {
    /// What was to be locked.
    pub key: Key,
    /// The lock id that the last attempt of this call carried; the others too, unless a lock was granted
    /// too late to be of use.
    pub lock_id: LockId,
    /// What the lock is part of: see [`with_recipe`](crate::LockConfig::with_recipe).
    pub recipe: Option<&'static str>,
    /// From the call to its end.
    pub waited: Duration,
    /// The part of it in which others of this process were before this one, so that the store was not
    /// asked.
    pub queued: Duration,
    /// How many acquires were sent to the backend.
    pub attempts: u32,
    /// How it ended.
    pub end: AcquisitionEnd,
}

/// How a call that wanted a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquisitionEnd {
    /// With a guard.
    Acquired,
    /// With `None`: [`try_acquire`](crate::try_acquire()) found the lock held by someone else.
    Locked,
    /// With an error; for a lock that stayed held, `AcquisitionTimeout`.
    Failed(ErrorCode),
    /// Its future was dropped.
    Dropped,
}

/// The end of the time for which a guard held its lock.
///
/// For an auto-extended guard, and wherever somebody waits for [`lost`](crate::Held::lost) or has
/// a [`lost_token`](crate::Held::lost_token), a loss is observed when it happens; for other guards
/// when it is next asked about, at the guard's end at the latest.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HoldObserved {
    /// What was locked.
    pub key: Key,
    /// The id of the lock.
    pub lock_id: LockId,
    /// What the lock is part of: see [`with_recipe`](crate::LockConfig::with_recipe).
    pub recipe: Option<&'static str>,
    /// From the moment the lock was granted until it was given back, or could not be relied on any
    /// more.
    pub held: Duration,
    /// [`LossReason::Released`] if the holder gave the lock back in time; anything else is a loss.
    pub reason: LossReason,
}

impl LockObserver {
    /// An observer from a closure.
    pub fn new(observe: impl Fn(&Observation) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(observe)), logs: false }
    }

    /// Says that this observer logs every loss it hears of. The guards then do not log it a second time.
    #[must_use]
    pub fn that_logs(mut self) -> Self {
        self.logs = self.listener.is_some();
        self
    }

    /// No observer; the default.
    #[must_use]
    pub const fn none() -> Self {
        Self { listener: None, logs: false }
    }

    /// Whether nobody listens.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.listener.is_none()
    }

    /// Whether this observer logs every loss: see [`that_logs`](Self::that_logs).
    #[must_use]
    pub const fn logs(&self) -> bool {
        self.logs
    }

    /// Both observers, this one first. Together they log every loss if one of them does.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let logs = self.logs || other.logs;
        let listener: Option<Arc<Observe>> = match (self.listener, other.listener) {
            (Some(first), Some(second)) => Some(Arc::new(move |observation: &Observation| {
                // The second one is told even if the first one panics.
                observe(&*first, observation);
                second(observation);
            })),
            (one, other) => one.or(other),
        };
        Self { listener, logs }
    }

    pub(crate) fn report(&self, observation: impl FnOnce() -> Observation) {
        if let Some(listener) = &self.listener {
            observe(&**listener, &observation());
        }
    }
}

fn observe(listener: &Observe, observation: &Observation) {
    if contain(|| listener(observation)).is_none() {
        tracing::error!("a lock observer panicked");
    }
}

impl fmt::Debug for LockObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "LockObserver(none)" } else { "LockObserver" })
    }
}
