//! An operation in progress.

use std::sync::Arc;

use syncguard_core::{ErrorCode, Key, LockError, LockId};
use tokio::time::Instant;

use crate::event::{Operation, Outcome, What};
use crate::queue::Queue;
use crate::record::Record;

/// An operation that was started. If it is dropped unfinished, its event has the code `Aborted`.
pub(crate) struct Pending<'q> {
    queue: &'q Arc<Queue>,
    operation: Operation,
    /// The start, the key and the lock id. `None` once the event is queued, and without listeners.
    subject: Option<(Instant, Option<Key>, Option<LockId>)>,
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
        let subject = queue.has_listeners().then(|| (Instant::now(), key.cloned(), lock_id));
        Self { queue, operation, subject }
    }

    /// Queues the event of this result, and returns the result.
    pub(crate) fn end<T>(
        mut self,
        result: Result<T, LockError>,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Result<T, LockError> {
        self.queue_event(match &result {
            Ok(value) => outcome(value),
            Err(error) => Outcome::Error(error.code()),
        });
        result
    }

    fn queue_event(&mut self, outcome: Outcome) {
        if let Some((started, key, lock_id)) = self.subject.take() {
            let what = What::Operation(self.operation, outcome);
            let backend = self.queue.backend();
            self.queue.push(Record::new(backend, what, started.elapsed(), (key, lock_id)));
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.queue_event(Outcome::Error(ErrorCode::Aborted));
    }
}
