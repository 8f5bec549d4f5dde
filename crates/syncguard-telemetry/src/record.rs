//! An event on its way: everything that need not be computed while somebody waits.

use std::time::Duration;

use syncguard_core::{
    AcquisitionEnd, AcquisitionObserved, ErrorCode, HoldObserved, Key, LockId, LossReason,
    Observation,
};
use tracing::{Dispatch, Span};

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
    pub(crate) fn new(
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
