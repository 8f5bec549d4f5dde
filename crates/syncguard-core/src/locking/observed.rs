//! The reports of acquisitions and holds to a [`LockObserver`].

use crate::contract::loss_reason::LossReason;
use crate::observe::{
    AcquisitionEnd, AcquisitionObserved, Began, HoldObserved, LockObserver, Observation,
};
use crate::rt::Instant;
use crate::value::{Key, LockError, LockId};

/// An acquisition, as it is reported to the observer. A drop before the end reports that the caller gave up.
pub(crate) struct ObservedAcquisition<'a> {
    /// `None` without an observer, and after the end was reported.
    observed: Option<(&'a LockObserver, Instant)>,
    key: &'a Key,
    recipe: Option<&'static str>,
    lock_id: LockId,
    attempts: u32,
    /// When the caller became the head of its queue.
    first: Option<Instant>,
}

impl<'a> ObservedAcquisition<'a> {
    pub(crate) fn start(
        observer: &'a LockObserver,
        key: &'a Key,
        lock_id: LockId,
        recipe: Option<&'static str>,
    ) -> Self {
        let observed = (!observer.is_none()).then(|| (observer, Instant::now()));
        observer
            .report(|| Observation::AcquisitionBegan(Began { key: key.clone(), lock_id, recipe }));
        Self { observed, key, recipe, lock_id, attempts: 0, first: None }
    }

    /// Counts one more attempt, for a lock with this id.
    pub(crate) fn next_attempt(&mut self) -> LockId {
        self.attempts += 1;
        self.lock_id
    }

    /// Sets the lock id of the next attempts.
    pub(crate) fn set_lock_id(&mut self, lock_id: LockId) {
        self.lock_id = lock_id;
    }

    /// The number of attempts until now.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// The caller has become the head of its queue.
    pub(crate) fn on_head(&mut self) {
        if self.observed.is_some() {
            self.first.get_or_insert_with(Instant::now);
        }
    }

    /// Reports the end of the acquisition. `granted` says whether an answer means a granted lock.
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
            let now = Instant::now();
            observer.report(|| {
                Observation::Acquisition(AcquisitionObserved {
                    key: self.key.clone(),
                    lock_id: self.lock_id,
                    recipe: self.recipe,
                    waited: now.saturating_duration_since(since),
                    queued: self.first.unwrap_or(now).saturating_duration_since(since),
                    attempts: self.attempts,
                    end,
                })
            });
        }
    }
}

impl Drop for ObservedAcquisition<'_> {
    fn drop(&mut self) {
        self.report(AcquisitionEnd::Dropped);
    }
}

/// A hold whose end is reported to the observer.
pub(crate) struct ObservedHold {
    observer: LockObserver,
    key: Key,
    lock_id: LockId,
    recipe: Option<&'static str>,
    since: Instant,
}

impl ObservedHold {
    /// `None` without an observer: the guard then carries one empty pointer.
    pub(crate) fn start(
        observer: &LockObserver,
        key: &Key,
        lock_id: LockId,
        recipe: Option<&'static str>,
    ) -> Option<Box<Self>> {
        if observer.is_none() {
            return None;
        }
        let (observer, key) = (observer.clone(), key.clone());
        observer.report(|| Observation::HoldBegan(Began { key: key.clone(), lock_id, recipe }));
        Some(Box::new(Self { observer, key, lock_id, recipe, since: Instant::now() }))
    }

    /// Whether the observer logs a loss.
    pub(crate) fn is_logged(&self) -> bool {
        self.observer.logs()
    }

    /// Reports the end of a hold that was valid until `until`.
    pub(crate) fn end(
        &self,
        reason: LossReason,
        until: Instant,
        reason_of_expiry: impl FnOnce() -> LossReason,
    ) {
        let now = Instant::now();
        // A lock that is released after its end was lost before, even if the loss went unnoticed.
        let reason = match reason {
            LossReason::Released if until <= now => reason_of_expiry(),
            reason => reason,
        };
        self.observer.report(|| {
            Observation::Hold(HoldObserved {
                key: self.key.clone(),
                lock_id: self.lock_id,
                recipe: self.recipe,
                held: now.min(until).saturating_duration_since(self.since),
                reason,
            })
        });
    }
}
