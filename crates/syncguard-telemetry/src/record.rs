//! An event on its way: everything that need not be computed while somebody waits.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::{
    AcquisitionEnd, AcquisitionObserved, ErrorCode, HoldObserved, Key, LockError, LockId,
    LossReason, Observation,
};
use tokio::time::Instant;
use tracing::{Dispatch, Span};

use crate::queue::Queue;
use crate::{EventKind, EventResult, LockEvent, Reason};

/// An event without its hashes, and what they are made of.
pub(crate) struct Record {
    pub(crate) event: LockEvent,
    pub(crate) key: Option<Key>,
    pub(crate) lock_id: Option<LockId>,
    /// Where the caller was, for a sink that wants to know.
    pub(crate) scope: Option<Scope>,
}

/// The subscriber and the span in which something happened.
pub(crate) struct Scope {
    pub(crate) dispatch: Dispatch,
    pub(crate) span: Span,
}

impl Scope {
    pub(crate) fn current() -> Self {
        Self { dispatch: tracing::dispatcher::get_default(Clone::clone), span: Span::current() }
    }
}

impl Record {
    fn new(
        backend: &'static str,
        kind: EventKind,
        key: Option<Key>,
        lock_id: Option<LockId>,
    ) -> Self {
        let event = LockEvent {
            backend,
            kind,
            result: EventResult::Fail,
            reason: None,
            error_code: None,
            duration: Duration::ZERO,
            attempts: None,
            loss: None,
            key_hash: None,
            lock_id_hash: None,
            key: None,
            lock_id: None,
        };
        Self { event, key, lock_id, scope: None }
    }

    /// `None` for what a later version of the core may tell.
    pub(crate) fn observed(backend: &'static str, observation: &Observation) -> Option<Self> {
        match observation {
            Observation::Acquisition(acquisition) => Some(Self::wait(backend, acquisition)),
            Observation::Hold(hold) => Some(Self::hold(backend, hold)),
            _ => None,
        }
    }

    fn wait(backend: &'static str, observed: &AcquisitionObserved) -> Self {
        let (key, lock_id) = (Some(observed.key.clone()), Some(observed.lock_id));
        let mut record = Self::new(backend, EventKind::Wait, key, lock_id);
        let event = &mut record.event;
        event.duration = observed.waited;
        event.attempts = Some(observed.attempts);
        match observed.end {
            AcquisitionEnd::Acquired => event.result = EventResult::Ok,
            AcquisitionEnd::Locked => event.reason = Some(Reason::Locked),
            AcquisitionEnd::Failed(code) => {
                event.error_code = Some(code);
                event.reason = (code == ErrorCode::AcquisitionTimeout).then_some(Reason::Locked);
            }
            _ => event.error_code = Some(ErrorCode::Aborted),
        }
        record
    }

    fn hold(backend: &'static str, observed: &HoldObserved) -> Self {
        let (key, lock_id) = (Some(observed.key.clone()), Some(observed.lock_id));
        let mut record = Self::new(backend, EventKind::Hold, key, lock_id);
        let event = &mut record.event;
        event.duration = observed.held;
        match observed.reason {
            LossReason::Released => event.result = EventResult::Ok,
            reason => event.loss = Some(reason),
        }
        record
    }
}

/// An operation under way. Dropped unfinished, it tells that it was given up.
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
