//! Those who want to hear of events, and how they are told.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncguard_core::Key;
use syncguard_core::authoring::contain;
use syncguard_core::observe::Observation;

use crate::LockEvent;
use crate::now::Change;
use crate::options::{IncludeRaw, TelemetryOptions};
use crate::record::{Record, Scope};

/// The sinks, the predicate for raw values, and how often one of them panicked.
pub(crate) struct Callbacks {
    options: TelemetryOptions,
    panics: AtomicU64,
}

impl Callbacks {
    pub(crate) fn new(options: TelemetryOptions) -> Self {
        Self { options, panics: AtomicU64::new(0) }
    }

    pub(crate) fn options(&self) -> &TelemetryOptions {
        &self.options
    }

    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// Hands a record to everybody. Spans and their subscribers are foreign code, too.
    pub(crate) fn deliver(&self, record: Record) {
        self.contain(|| {
            let Record { mut event, key, lock_id, scope } = record;
            event.key_hash = key.as_ref().map(Into::into);
            event.lock_id_hash = lock_id.as_ref().map(Into::into);
            event.key_family = key.as_ref().and_then(|key| self.family(key));
            if self.may_include_raw(&event) {
                (event.key, event.lock_id) = (key, lock_id);
            }
            match scope {
                None => self.call(&event),
                Some(Scope { dispatch, span }) => {
                    tracing::dispatcher::with_default(&dispatch, || {
                        span.in_scope(|| self.call(&event));
                    });
                }
            }
        });
    }

    /// Keeps count of who waits and who holds. Called where it happens, so that no full queue makes the
    /// counts wrong.
    pub(crate) fn count(&self, backend: &'static str, observation: &Observation) {
        if self.options.counters.is_empty() {
            return;
        }
        let Some((key, recipe, what, by)) = Change::of(observation) else { return };
        let change = Change { backend, key_family: self.family(key), recipe, what, by };
        for counter in &self.options.counters {
            self.contain(|| counter(&change));
        }
    }

    fn family(&self, key: &Key) -> Option<Arc<str>> {
        let families = self.options.families.as_ref()?;
        Some(self.contain(|| families.of(key)).unwrap_or_else(|| families.other()))
    }

    fn may_include_raw(&self, event: &LockEvent) -> bool {
        match &self.options.include_raw {
            IncludeRaw::Never => false,
            IncludeRaw::Always => true,
            IncludeRaw::If(predicate) => self.contain(|| predicate(event)).unwrap_or(false),
        }
    }

    fn call(&self, event: &LockEvent) {
        for sink in &self.options.sinks {
            self.contain(|| sink(event));
        }
    }

    /// Runs foreign code and counts its panics; `None` if it panicked.
    fn contain<T>(&self, foreign: impl FnOnce() -> T) -> Option<T> {
        let result = contain(foreign);
        if result.is_none() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}
