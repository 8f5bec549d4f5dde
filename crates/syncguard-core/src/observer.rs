//! What happens around a lock that its backend cannot see.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::contain::contain;
use crate::rt::Instant;
use crate::{ErrorCode, Key, LockError, LockId, LossReason};

/// Hears how long locks were waited for, how long they were held, and which were lost: for
/// decorators such as telemetry, which supply one through
/// [`LockBackend::guard_defaults`](crate::LockBackend::guard_defaults).
///
/// A backend sees single operations. That ten of them were one [`acquire`](crate::acquire()), and when a
/// guard's lock ended, is known to this crate alone, and said here. Without an observer nothing of
/// it is computed: no clock is read and nothing is allocated.
///
/// It is called in the midst of locking: it must be quick and must not block. A panic in it is
/// contained.
///
/// ```
/// use syncguard_core::{GuardDefaults, LockObserver, Observation};
///
/// let observer = LockObserver::new(|observation| {
///     if let Observation::Hold(hold) = observation {
///         println!("{:?} was held for {:?}", hold.key, hold.held);
///     }
/// });
/// let defaults = GuardDefaults::default().with_observer(observer);
/// ```
#[derive(Clone, Default)]
pub struct LockObserver(Option<Arc<Observe>>);

type Observe = dyn Fn(&Observation) + Send + Sync;

/// What a [`LockObserver`] hears of.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Observation {
    /// Somebody stopped trying for a lock, with or without success.
    Acquisition(AcquisitionObserved),
    /// A lock that a guard held is over.
    Hold(HoldObserved),
}

/// The end of one call of [`acquire`](crate::acquire()), [`try_lock`](crate::try_lock()) or
/// [`lock`](crate::lock()). A call refused for its arguments, or cancelled before it began, is not observed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct AcquisitionObserved {
    /// What was to be locked.
    pub key: Key,
    /// The lock id that the last attempt of this call carried; the others too, unless a lock was granted
    /// too late to be of use.
    pub lock_id: LockId,
    /// From the call to its end.
    pub waited: Duration,
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
    /// With `None`: [`try_lock`](crate::try_lock()) found the lock held by someone else.
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
    /// From the moment the lock was granted until it was given back, or could not be relied on any
    /// more.
    pub held: Duration,
    /// [`LossReason::Released`] if the holder gave the lock back in time; anything else is a loss.
    pub reason: LossReason,
}

impl LockObserver {
    /// An observer from a closure.
    pub fn new(observe: impl Fn(&Observation) + Send + Sync + 'static) -> Self {
        Self(Some(Arc::new(observe)))
    }

    /// No observer; the default.
    #[must_use]
    pub const fn none() -> Self {
        Self(None)
    }

    /// Whether nobody listens.
    #[must_use]
    pub const fn is_none(&self) -> bool {
        self.0.is_none()
    }

    /// Both observers, this one first.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        match (self.0, other.0) {
            (Some(first), Some(second)) => Self::new(move |observation| {
                // The second one is told even if the first one panics.
                observe(&*first, observation);
                second(observation);
            }),
            (one, other) => Self(one.or(other)),
        }
    }

    fn report(&self, observation: impl FnOnce() -> Observation) {
        if let Some(listener) = &self.0 {
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

/// Somebody trying for a lock. Dropped unfinished, it reports that they stopped.
pub(crate) struct Waiting<'a> {
    /// `None` where nobody listens, and once the end has been reported.
    observed: Option<(&'a LockObserver, Instant)>,
    key: &'a Key,
    lock_id: LockId,
    attempts: u32,
}

impl<'a> Waiting<'a> {
    pub(crate) fn start(observer: &'a LockObserver, key: &'a Key, lock_id: LockId) -> Self {
        let observed = (!observer.is_none()).then(|| (observer, Instant::now()));
        Self { observed, key, lock_id, attempts: 0 }
    }

    pub(crate) fn attempt(&mut self, lock_id: LockId) {
        self.lock_id = lock_id;
        self.attempts += 1;
    }

    /// The call is over, with this result.
    pub(crate) fn end<T>(
        mut self,
        result: Result<T, LockError>,
        granted: impl FnOnce(&T) -> bool,
    ) -> Result<T, LockError> {
        self.report(match &result {
            Ok(answer) if granted(answer) => AcquisitionEnd::Acquired,
            Ok(_) => AcquisitionEnd::Locked,
            Err(error) => AcquisitionEnd::Failed(error.code()),
        });
        result
    }

    fn report(&mut self, end: AcquisitionEnd) {
        if let Some((observer, since)) = self.observed.take() {
            observer.report(|| {
                Observation::Acquisition(AcquisitionObserved {
                    key: self.key.clone(),
                    lock_id: self.lock_id,
                    waited: Instant::now().saturating_duration_since(since),
                    attempts: self.attempts,
                    end,
                })
            });
        }
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.report(AcquisitionEnd::Dropped);
    }
}

/// A held lock that somebody wants to hear the end of.
pub(crate) struct Holding {
    observer: LockObserver,
    key: Key,
    lock_id: LockId,
    since: Instant,
}

impl Holding {
    /// `None` where nobody listens: a guard then carries one empty pointer.
    pub(crate) fn start(observer: &LockObserver, key: &Key, lock_id: LockId) -> Option<Box<Self>> {
        if observer.is_none() {
            return None;
        }
        let (observer, key) = (observer.clone(), key.clone());
        Some(Box::new(Self { observer, key, lock_id, since: Instant::now() }))
    }

    /// The lock is over; without having ended, it would have been so at `until`.
    pub(crate) fn end(
        &self,
        reason: LossReason,
        until: Instant,
        why_it_ends: impl FnOnce() -> LossReason,
    ) {
        let now = Instant::now();
        // A lock that is given back after its end was lost before, whether anybody noticed or not.
        let reason = match reason {
            LossReason::Released if until <= now => why_it_ends(),
            reason => reason,
        };
        self.observer.report(|| {
            Observation::Hold(HoldObserved {
                key: self.key.clone(),
                lock_id: self.lock_id,
                held: now.min(until).saturating_duration_since(self.since),
                reason,
            })
        });
    }
}
