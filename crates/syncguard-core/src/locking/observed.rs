//! What a [`LockObserver`] is told, and when.

use crate::observe::{
    AcquisitionEnd, AcquisitionObserved, Began, HoldObserved, LockObserver, Observation,
};
use crate::rt::Instant;
use crate::{Key, LockError, LockId, LossReason};

/// Somebody trying for a lock. Dropped unfinished, it reports that they stopped.
pub(crate) struct Waiting<'a> {
    /// `None` where nobody listens, and once the end has been reported.
    observed: Option<(&'a LockObserver, Instant)>,
    key: &'a Key,
    recipe: Option<&'static str>,
    lock_id: LockId,
    attempts: u32,
    /// When it was the first in the line of its process.
    first: Option<Instant>,
}

impl<'a> Waiting<'a> {
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

    /// The store is asked once more, for a lock with this id.
    pub(crate) fn attempt(&mut self) -> LockId {
        self.attempts += 1;
        self.lock_id
    }

    /// The next attempts are for a lock with this id.
    pub(crate) fn go_on_with(&mut self, lock_id: LockId) {
        self.lock_id = lock_id;
    }

    /// How often the store was asked.
    pub(crate) fn attempts(&self) -> u32 {
        self.attempts
    }

    /// Nobody of this process is before it any more.
    pub(crate) fn is_first(&mut self) {
        if self.observed.is_some() {
            self.first.get_or_insert_with(Instant::now);
        }
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
    recipe: Option<&'static str>,
    since: Instant,
}

impl Holding {
    /// `None` where nobody listens: a guard then carries one empty pointer.
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

    /// Whether a loss is logged by whoever hears of it.
    pub(crate) fn is_logged(&self) -> bool {
        self.observer.logs()
    }

    /// The lock is over. It would have ended by itself at `until`.
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
                recipe: self.recipe,
                held: now.min(until).saturating_duration_since(self.since),
                reason,
            })
        });
    }
}
