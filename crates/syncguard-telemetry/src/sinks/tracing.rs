//! Events as log lines.

use syncguard_core::ErrorCode;
use syncguard_core::contract::Holder;
use tracing::Level;

use crate::{EventKind, LockEvent, TelemetryOptions};

impl TelemetryOptions {
    /// Logs every event through `tracing`, under the target `syncguard::telemetry`.
    ///
    /// | level | what happened |
    /// |---|---|
    /// | `ERROR` | a lock was lost; an error that needs a person, such as `AuthFailed` |
    /// | `WARN` | an error that a retry may mend; a release or an extend of a lock that was not held |
    /// | `INFO` | a wait for a lock ran out of time or retries |
    /// | `DEBUG` | success; contention; an operation that the caller gave up; a wait that ended with an error of its last acquire, which has its own line |
    /// | `TRACE` | an answer to `isLocked` or `lookup` |
    ///
    /// The fields are those of [`LockEvent`], in snake case; `duration_ms` is in milliseconds, with
    /// fractions. Raw keys and lock ids are never among them, whatever else the options say. Each line goes to the
    /// subscriber and the span that were current in the operation; both stay alive until then.
    ///
    /// A guard whose backend has this does not log its loss a second time.
    pub fn with_tracing(mut self) -> Self {
        self.logs = true;
        self.with_on_event(log)
    }
}

fn log(event: &LockEvent) {
    // The level of a tracing event is part of its static description.
    macro_rules! at {
        ($level:expr) => {
            tracing::event!(
                target: "syncguard::telemetry",
                $level,
                backend = event.backend,
                operation = event.kind.as_str(),
                result = event.result.as_str(),
                reason = event.reason.map(crate::Reason::as_str),
                error_code = event.error_code.map(ErrorCode::as_str),
                loss = event.loss.map(syncguard_core::LossReason::as_str),
                attempts = event.attempts,
                queued_ms = event.queued.map(|queued| queued.as_secs_f64() * 1e3),
                duration_ms = event.duration.as_secs_f64() * 1e3,
                recipe = event.recipe,
                holder = event.holder.as_ref().map(Holder::label),
                key_family = event.key_family.as_deref(),
                key_hash = event.key_hash.map(tracing::field::display),
                lock_id_hash = event.lock_id_hash.map(tracing::field::display),
                "{}", message(event),
            )
        };
    }
    match level(event) {
        Level::ERROR => at!(Level::ERROR),
        Level::WARN => at!(Level::WARN),
        Level::INFO => at!(Level::INFO),
        Level::DEBUG => at!(Level::DEBUG),
        Level::TRACE => at!(Level::TRACE),
    }
}

fn level(event: &LockEvent) -> Level {
    match (event.kind, event.error_code) {
        (_, Some(ErrorCode::Aborted)) => Level::DEBUG,
        (_, Some(ErrorCode::AcquisitionTimeout)) => Level::INFO,
        // Its acquire has logged the error already, unless the store did not answer or was not asked.
        (EventKind::Wait, Some(code))
            if !matches!(code, ErrorCode::NetworkTimeout | ErrorCode::InvalidArgument) =>
        {
            Level::DEBUG
        }
        (_, Some(code)) if code.is_retryable() => Level::WARN,
        (_, Some(_)) => Level::ERROR,
        (EventKind::Hold, None) if event.loss.is_some() => Level::ERROR,
        (EventKind::Release | EventKind::Extend, None) if event.reason.is_some() => Level::WARN,
        (EventKind::IsLocked | EventKind::Lookup, None) => Level::TRACE,
        _ => Level::DEBUG,
    }
}

fn message(event: &LockEvent) -> &'static str {
    match (event.kind, event.error_code.is_some(), event.result) {
        (EventKind::Hold, _, crate::EventResult::Fail) => "a lock was lost",
        (EventKind::Hold, _, crate::EventResult::Ok) => "a lock was given back",
        (EventKind::Wait, _, crate::EventResult::Ok) => "a lock was waited for",
        (EventKind::Wait, _, crate::EventResult::Fail) => "a lock was waited for in vain",
        (_, true, _) => "a lock operation failed",
        (_, false, _) => "a lock operation was answered",
    }
}
