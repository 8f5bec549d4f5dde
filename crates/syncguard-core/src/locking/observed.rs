//! The reports of acquisitions and holds to a [`LockObserver`].

use super::config::Policy;
use crate::client::ClientState;
use crate::contract::loss_reason::LossReason;
use crate::observe::{AcquisitionEnd, LockObserver, Observation, ObservedEvent};
use crate::rt::Instant;
use crate::value::{Holder, Key, LockError, LockId};

/// An acquisition, as it is reported to the observer. A drop before the end reports that the caller gave up.
pub(crate) struct ObservedAcquisition<'a> {
    /// `None` without an observer, and after the end was reported.
    observed: Option<(&'a ClientState, Instant)>,
    key: &'a Key,
    policy: &'a Policy,
    lock_id: LockId,
    attempts: u32,
    /// When the caller became the head of its queue.
    first: Option<Instant>,
    /// Whether the store has answered since the last failure that another holder has the lock.
    pub(crate) was_answered: bool,
}

impl<'a> ObservedAcquisition<'a> {
    pub(crate) fn start(
        defaults: &'a ClientState,
        key: &'a Key,
        lock_id: LockId,
        policy: &'a Policy,
    ) -> Self {
        let (observer, recipe) = (defaults.observer(), policy.recipe);
        let observed = (!observer.is_none()).then(|| (defaults, Instant::now()));
        let event = ObservedEvent::AcquisitionBegan;
        observer.report(|| Observation { key: key.clone(), lock_id, recipe, event });
        Self { observed, key, policy, lock_id, attempts: 0, first: None, was_answered: false }
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
        let (end, holder) = match &result {
            Ok(answer) if granted(answer) => (AcquisitionEnd::Acquired, None),
            Ok(_) => (AcquisitionEnd::Locked, None),
            Err(error) => (AcquisitionEnd::Failed(error.code()), error.holder()),
        };
        self.report(end, holder);
        result
    }

    /// `other` is the holder whose lock the caller did not get, if it is known.
    fn report(&mut self, end: AcquisitionEnd, other: Option<&Holder>) {
        if let Some((defaults, since)) = self.observed.take() {
            let now = Instant::now();
            defaults.observer().report(|| {
                let event = ObservedEvent::Acquisition {
                    holder: match end {
                        AcquisitionEnd::Acquired => Some(self.policy.holder(defaults)),
                        _ => other.cloned(),
                    },
                    waited: now.saturating_duration_since(since),
                    queued: self.first.unwrap_or(now).saturating_duration_since(since),
                    attempts: self.attempts,
                    end,
                };
                let (key, recipe) = (self.key.clone(), self.policy.recipe);
                Observation { key, lock_id: self.lock_id, recipe, event }
            });
        }
    }
}

impl Drop for ObservedAcquisition<'_> {
    fn drop(&mut self) {
        self.report(AcquisitionEnd::Dropped, None);
    }
}

/// A hold whose end is reported to the observer.
pub(crate) struct ObservedHold {
    observer: LockObserver,
    key: Key,
    lock_id: LockId,
    recipe: Option<&'static str>,
    holder: Holder,
    since: Instant,
}

impl ObservedHold {
    /// `None` without an observer: the guard then carries one empty pointer.
    pub(crate) fn start(
        defaults: &ClientState,
        key: &Key,
        lock_id: LockId,
        policy: &Policy,
    ) -> Option<Box<Self>> {
        if defaults.observer().is_none() {
            return None;
        }
        let (observer, key, recipe) = (defaults.observer().clone(), key.clone(), policy.recipe);
        let event = ObservedEvent::HoldBegan;
        observer.report(|| Observation { key: key.clone(), lock_id, recipe, event });
        let (holder, since) = (policy.holder(defaults), Instant::now());
        Some(Box::new(Self { observer, key, lock_id, recipe, holder, since }))
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
            let held = now.min(until).saturating_duration_since(self.since);
            let event = ObservedEvent::Hold { holder: self.holder.clone(), held, reason };
            let (key, lock_id, recipe) = (self.key.clone(), self.lock_id, self.recipe);
            Observation { key, lock_id, recipe, event }
        });
    }
}
