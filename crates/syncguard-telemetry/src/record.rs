//! An event in the queue.

use std::time::Duration;

use syncguard_core::contract::Holder;
use syncguard_core::observe::{AcquisitionEnd, Observation, ObservedEvent};
use syncguard_core::{ErrorCode, Key, LockId, LossReason};
use tokio::runtime::Handle;
use tracing::{Dispatch, Span};

use crate::event::{EventKind, EventResult, LockEvent, Outcome, Reason};

/// An event without its hashes, which the thread of the queue computes, and the values that they are made of.
pub(crate) struct Record {
    pub(crate) event: LockEvent,
    pub(crate) key: Option<Key>,
    pub(crate) lock_id: Option<LockId>,
    /// The caller's span, for sinks that log.
    pub(crate) scope: Option<Scope>,
    /// The runtime of the operation, for callbacks that spawn tasks.
    pub(crate) runtime: Option<Handle>,
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
        (kind, outcome): (EventKind, Outcome),
        duration: Duration,
        (key, lock_id): (Option<Key>, Option<LockId>),
    ) -> Self {
        let (reason, error_code) = match outcome {
            Outcome::Ok => (None, None),
            Outcome::No(reason) => (reason, None),
            Outcome::Error(code) => (None, Some(code)),
        };
        let result =
            if matches!(outcome, Outcome::Ok) { EventResult::Ok } else { EventResult::Fail };
        let event = LockEvent {
            backend,
            kind,
            result,
            reason,
            error_code,
            duration,
            attempts: None,
            queued: None,
            loss: None,
            recipe: None,
            holder: None,
            key_family: None,
            key_hash: None,
            lock_id_hash: None,
            key: None,
            lock_id: None,
        };
        Self { event, key, lock_id, scope: None, runtime: None }
    }

    /// `None` for a beginning, and for an observation of a later version of the core.
    pub(crate) fn observed(backend: &'static str, observation: &Observation) -> Option<Self> {
        let of = (Some(observation.key.clone()), Some(observation.lock_id));
        let mut record = match &observation.event {
            ObservedEvent::Acquisition { holder, waited, queued, attempts, end, .. } => {
                let outcome = match end {
                    AcquisitionEnd::Acquired => Outcome::Ok,
                    AcquisitionEnd::Locked => Outcome::No(Some(Reason::Locked)),
                    AcquisitionEnd::Failed(code) => Outcome::Error(*code),
                    _ => Outcome::Error(ErrorCode::Aborted),
                };
                let mut record = Self::new(backend, (EventKind::Wait, outcome), *waited, of);
                let event = &mut record.event;
                (event.attempts, event.queued) = (Some(*attempts), Some(*queued));
                if event.error_code == Some(ErrorCode::AcquisitionTimeout) {
                    event.reason = Some(Reason::Locked);
                }
                record.held_by(holder.clone())
            }
            ObservedEvent::Hold { holder, held, reason, .. } => {
                let (outcome, loss) = match reason {
                    LossReason::Released => (Outcome::Ok, None),
                    reason => (Outcome::No(None), Some(*reason)),
                };
                let mut record = Self::new(backend, (EventKind::Hold, outcome), *held, of);
                record.event.loss = loss;
                record.held_by(Some(holder.clone()))
            }
            _ => return None,
        };
        record.event.recipe = observation.recipe;
        Some(record)
    }

    pub(crate) fn held_by(mut self, holder: Option<Holder>) -> Self {
        self.event.holder = holder.filter(|holder| !holder.label().is_empty());
        self
    }
}
