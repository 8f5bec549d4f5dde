//! An operation under way, and what becomes of it.

use std::sync::Arc;

use syncguard_core::{ErrorCode, Key, LockError, LockId};
use tokio::time::Instant;

use crate::queue::Queue;
use crate::record::Record;
use crate::{EventKind, EventResult, Reason};

/// An operation that was started. Dropped unfinished, it tells that it was given up.
pub(crate) struct Pending<'q> {
    queue: &'q Arc<Queue>,
    /// When it started, and what is known of it. `None` once told, and where nobody listens.
    untold: Option<(Instant, Record)>,
}

/// How an operation was answered.
#[derive(Clone, Copy)]
pub(crate) struct Answer {
    pub(crate) result: EventResult,
    pub(crate) reason: Option<Reason>,
}

impl Answer {
    pub(crate) const OK: Self = Self { result: EventResult::Ok, reason: None };

    pub(crate) fn fail(reason: Option<Reason>) -> Self {
        Self { result: EventResult::Fail, reason }
    }

    pub(crate) fn yes_or_no(yes: bool) -> Self {
        if yes { Self::OK } else { Self::fail(None) }
    }
}

impl<'q> Pending<'q> {
    pub(crate) fn start(
        queue: &'q Arc<Queue>,
        kind: EventKind,
        key: Option<&Key>,
        lock_id: Option<LockId>,
    ) -> Self {
        let untold = queue
            .has_listeners()
            .then(|| (Instant::now(), Record::new(queue.backend(), kind, key.cloned(), lock_id)));
        Self { queue, untold }
    }

    /// Passes the result through, and tells of it.
    pub(crate) fn end<T>(
        mut self,
        result: Result<T, LockError>,
        answer: impl FnOnce(&T) -> Answer,
    ) -> Result<T, LockError> {
        match &result {
            Ok(value) => self.tell(answer(value), None),
            Err(error) => self.tell(Answer::fail(None), Some(error.code())),
        }
        result
    }

    fn tell(&mut self, answer: Answer, error_code: Option<ErrorCode>) {
        if let Some((started, mut record)) = self.untold.take() {
            record.event.result = answer.result;
            record.event.reason = answer.reason;
            record.event.error_code = error_code;
            record.event.duration = started.elapsed();
            self.queue.push(record);
        }
    }
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        self.tell(Answer::fail(None), Some(ErrorCode::Aborted));
    }
}
