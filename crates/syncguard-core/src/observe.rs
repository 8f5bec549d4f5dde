//! Observations of waiting, holding and losing, which a backend cannot make.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::contract::loss_reason::LossReason;
use crate::util::catch_callback_panic;
use crate::value::{ErrorCode, Holder, Key, LockId};

/// Learns how long callers waited for locks, how long they held them, and which locks were lost. It is for
/// decorators such as telemetry, which supply an observer through
/// [`LockBackend::client_state`](crate::LockBackend::client_state).
///
/// A backend sees single operations. Only this crate knows that ten of them were one
/// [`acquire`](crate::acquire()), and when a guard's lock ended, and it tells the observer. Without an observer
/// it computes none of this: it reads no clock and allocates nothing. The default is no observer.
///
/// The observer is called in the midst of locking: it must be quick and must not block. A panic in it goes
/// no further.
///
/// ```
/// use syncguard_core::shared::ClientState;
/// use syncguard_core::observe::{LockObserver, ObservedEvent};
///
/// let observer = LockObserver::new(|observation| {
///     if let ObservedEvent::Hold { held, .. } = observation.event {
///         println!("{:?} was held for {held:?}", observation.key);
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

/// An event that a [`LockObserver`] gets.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Observation {
    /// The key that is to be locked, or is locked.
    pub key: Key,
    /// The id of the lock; of a call that wants one, that of its first attempt when it begins, and of its last one when it
    /// ends. All attempts have the same id, unless a lock was granted too late to be of use.
    pub lock_id: LockId,
    /// The recipe that the lock is part of: see [`as_recipe`](crate::authoring::recipes::as_recipe).
    pub recipe: Option<&'static str>,
    /// The event.
    pub event: ObservedEvent,
}

/// The kind of an [`Observation`], and what else is known of it.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum ObservedEvent {
    /// A call began to try for a lock. An [`Acquisition`](Self::Acquisition) follows.
    AcquisitionBegan,
    /// A guard was made. A [`Hold`](Self::Hold) follows, unless the guard is forgotten.
    HoldBegan,
    /// The end of one call of [`acquire`](crate::acquire()), [`try_acquire`](crate::try_acquire()) or
    /// [`lock`](crate::lock()), with or without success. A call refused for its arguments, or cancelled before it began, is
    /// not observed.
    #[non_exhaustive]
    Acquisition {
        /// The holder of the lock: this caller if the lock was granted, or else the holder that the error
        /// [names](crate::LockError::holder).
        holder: Option<Holder>,
        /// The time from the call to its end.
        waited: Duration,
        /// The part of `waited` in which other waiters of this process were before this one in the queue, so that the store
        /// was not asked.
        queued: Duration,
        /// How many acquires the backend got.
        attempts: u32,
        /// How the call ended.
        end: AcquisitionEnd,
    },
    /// The end of the time for which a guard held its lock.
    ///
    /// A loss is observed when it happens if the guard is auto-extended, or if a task waits for
    /// [`lost`](crate::Held::lost) or has a [`lost_token`](crate::Held::lost_token). For other guards a loss is
    /// observed at the next question about the lock, and at the end of the guard at the latest.
    #[non_exhaustive]
    Hold {
        /// The holder that was asked to be stored with the lock. Its label is empty if it is turned off.
        holder: Holder,
        /// The time from the grant of the lock until it was given back or could no longer be relied on.
        held: Duration,
        /// [`LossReason::Released`] if the holder gave the lock back in time; every other reason is a loss.
        reason: LossReason,
    },
}

/// How a call for a lock ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum AcquisitionEnd {
    /// With a guard.
    Acquired,
    /// With `None`: [`try_acquire`](crate::try_acquire()) found the lock held by someone else.
    Locked,
    /// With an error; `AcquisitionTimeout` if the lock stayed held.
    Failed(ErrorCode),
    /// The future of the call was dropped.
    Dropped,
}

impl LockObserver {
    /// An observer from a closure.
    pub fn new(observe: impl Fn(&Observation) + Send + Sync + 'static) -> Self {
        Self { listener: Some(Arc::new(observe)), logs: false }
    }

    /// Says that this observer logs every loss. The guards then do not log the loss a second time.
    #[must_use]
    pub fn with_logging(mut self) -> Self {
        self.logs = self.listener.is_some();
        self
    }

    /// True if there is no observer.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.listener.is_none()
    }

    /// True if this observer logs every loss: see [`with_logging`](Self::with_logging).
    #[must_use]
    pub const fn logs(&self) -> bool {
        self.logs
    }

    /// Calls both observers, this one first. Together they log every loss if one of them does.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        let logs = self.logs || other.logs;
        let listener: Option<Arc<Observe>> = match (self.listener, other.listener) {
            (Some(first), Some(second)) => Some(Arc::new(move |observation: &Observation| {
                // The second observer is called even if the first one panics.
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
    if catch_callback_panic(|| listener(observation)).is_none() {
        tracing::error!("a lock observer panicked");
    }
}

impl fmt::Debug for LockObserver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_none() { "LockObserver(none)" } else { "LockObserver" })
    }
}
