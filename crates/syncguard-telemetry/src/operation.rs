//! An operation under way, and what becomes of it.

use std::sync::Arc;

use syncguard_core::{ErrorCode, Key, LockError, LockId};
use tokio::time::Instant;

use crate::event::{Operation, Outcome, What};
use crate::queue::Queue;
use crate::record::Record;

/// An operation that was started. Dropped unfinished, it tells that it was given up.
pub(crate) struct Pending<'q> {
    queue: &'q Arc<Queue>,
    operation: Operation,
    /// When it started, and what it is about. `None` once told, and where nobody listens.
    untold: Option<(Instant, Option<Key>, Option<LockId>)>,
}

impl Outcome {
    pub(crate) fn yes_or_no(yes: bool) -> Self {
        if yes { Self::Ok } else { Self::No(None) }
    }
}

impl<'q> Pending<'q> {
    pub(crate) fn start(
        queue: &'q Arc<Queue>,
        operation: Operation,
        key: Option<&Key>,
        lock_id: Option<LockId>,
    ) -> Self {
        let untold = queue.has_listeners().then(|| (Instant::now(), key.cloned(), lock_id));
        Self { queue, operation, untold }
    }

    /// Passes the result through, and tells of it.
    pub(crate) fn end<T>(
        mut self,
        result: Result<T, LockError>,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Result<T, LockError> {
        self.tell(match &result {
            Ok(value) => outcome(value),
            Err(error) => Outcome::Error(error.code()),
        });
        result
    }

    fn tell(&mut self, outcome: Outcome) {
        if let Some((started, key, lock_id)) = self.untold.take() {
            let what = What::Operation(self.operation, outcome);
            let backend = self.queue.backend();
            self.queue.push(Record::new(backend, what, started.elapsed(), (key, lock_id)));
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.tell(Outcome::Error(ErrorCode::Aborted));
    }
}
