//! An operation in progress.

use std::sync::Arc;

use syncguard_core::contract::Holder;
use syncguard_core::{ErrorCode, Key, LockError, LockId};
use tokio::time::Instant;

use crate::event::{EventKind, Outcome};
use crate::queue::Queue;
use crate::record::Record;

/// An operation that was started. If it is dropped unfinished, its event has the code `Aborted`.
pub(crate) struct Pending<'q> {
    queue: &'q Arc<Queue>,
    operation: EventKind,
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
        operation: EventKind,
        key: Option<&Key>,
        lock_id: Option<LockId>,
    ) -> Self {
        let subject = queue.has_listeners().then(|| (Instant::now(), key.cloned(), lock_id));
        Self { queue, operation, subject }
    }

    /// Queues the event of this result, and returns the result.
    pub(crate) fn end<T>(
        self,
        result: Result<T, LockError>,
        outcome: impl FnOnce(&T) -> Outcome,
    ) -> Result<T, LockError> {
        self.end_with_holder(result, outcome, |_| None)
    }

    /// As [`end`](Self::end), with the holder of the lock that the answer is about.
    pub(crate) fn end_with_holder<T>(
        mut self,
        result: Result<T, LockError>,
        outcome: impl FnOnce(&T) -> Outcome,
        holder: impl FnOnce(&T) -> Option<Holder>,
    ) -> Result<T, LockError> {
        match &result {
            Ok(value) => self.queue_event(outcome(value), holder(value)),
            Err(error) => self.queue_event(Outcome::Error(error.code()), None),
        }
        result
    }

    fn queue_event(&mut self, outcome: Outcome, holder: Option<Holder>) {
        if let Some((started, key, lock_id)) = self.subject.take() {
            let what = (self.operation, outcome);
            let backend = self.queue.backend();
            let record = Record::new(backend, what, started.elapsed(), (key, lock_id));
            self.queue.push(record.held_by(holder));
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.queue_event(Outcome::Error(ErrorCode::Aborted), None);
    }
}
