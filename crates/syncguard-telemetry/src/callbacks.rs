//! The callbacks of the options, and how they are called.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use syncguard_core::Key;
use syncguard_core::authoring::catch_callback_panic;
use syncguard_core::observe::Observation;
use tokio::runtime::Handle;

use crate::LockEvent;
use crate::families::Families;
use crate::gauges::GaugeChange;
use crate::options::TelemetryOptions;
use crate::record::{Record, Scope};

/// The sinks, the predicate for raw values, and the count of their panics.
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

    /// Tells the sinks of the backend, before its first operation.
    pub(crate) fn begin(&self, backend: &'static str) {
        let family = self.options.families.as_ref().map(Families::other);
        for begin in &self.options.begins {
            self.contain(|| begin(backend, family.clone()));
        }
    }

    /// Hands a record to all sinks. Spans, their subscribers and the drop of a record are foreign code, too.
    pub(crate) fn deliver(&self, record: Record) {
        self.contain(|| {
            let Record { mut event, key, lock_id, scope, runtime } = record;
            let _inside = runtime.as_ref().map(Handle::enter);
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

    /// Updates the gauges of waiters and holders. The operation itself calls this, so that a full queue cannot make the
    /// gauges wrong.
    pub(crate) fn count(&self, backend: &'static str, observation: &Observation) {
        if self.options.gauges.is_empty() {
            return;
        }
        let Some((key, recipe, gauge, by, lock_id)) = GaugeChange::of(observation) else { return };
        let key_family = self.family(key);
        let change = GaugeChange { backend, key_family, recipe, gauge, by, lock_id };
        for update in &self.options.gauges {
            self.contain(|| update(&change));
        }
    }

    fn family(&self, key: &Key) -> Option<Arc<str>> {
        let families = self.options.families.as_ref()?;
        Some(self.contain(|| families.of(key)).unwrap_or_else(|| families.other()))
    }

    fn may_include_raw(&self, event: &LockEvent) -> bool {
        let predicate = self.options.include_raw.as_ref();
        predicate.and_then(|predicate| self.contain(|| predicate(event))).unwrap_or(false)
    }

    fn call(&self, event: &LockEvent) {
        for sink in &self.options.sinks {
            self.contain(|| sink(event));
        }
    }

    /// Runs foreign code and counts its panics; `None` if it panicked.
    fn contain<T>(&self, foreign: impl FnOnce() -> T) -> Option<T> {
        let result = catch_callback_panic(foreign);
        if result.is_none() {
            self.panics.fetch_add(1, Ordering::Relaxed);
        }
        result
    }
}
