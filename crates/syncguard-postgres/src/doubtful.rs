//! Locks whose acquire was sent more than once.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use syncguard_core::LockId;
use syncguard_core::authoring::cancel::Unsettled;

/// For each of them: an earlier sending may arrive after the release.
#[derive(Debug, Default)]
pub(crate) struct Doubtful(Mutex<HashMap<LockId, Unsettled>>);

impl Doubtful {
    /// A pool does not lose more connections than this while one lock is held. Beyond it the oldest entries
    /// are dropped.
    const LIMIT: usize = 10_000;

    pub(crate) fn note(&self, acquire: Unsettled) {
        let mut doubtful = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if doubtful.len() >= Self::LIMIT
            && let Some(any) = doubtful.keys().next().copied()
        {
            doubtful.remove(&any);
        }
        doubtful.insert(acquire.lock_id, acquire);
    }

    /// What is to be settled now that the lock was released.
    pub(crate) fn take(&self, lock_id: LockId) -> Option<Unsettled> {
        let mut doubtful = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if doubtful.is_empty() {
            return None;
        }
        doubtful.remove(&lock_id)
    }
}
