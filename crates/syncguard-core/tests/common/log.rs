//! A subscriber that collects the levels of the library's events.

use std::sync::{Arc, LazyLock, Mutex};

use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Collects the levels of the events.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<Level>>>);

impl Log {
    /// Beside this log, one that no thread uses stays for ever: with a single subscriber, `tracing` asks only the thread
    /// that reaches an event first whether it has a subscriber, and keeps the answer for all threads.
    pub(crate) fn new() -> Self {
        static UNUSED: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Log::default()));
        LazyLock::force(&UNUSED);
        Self::default()
    }

    pub(crate) fn take(&self) -> Vec<Level> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

impl Subscriber for Log {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("syncguard") && metadata.is_event()
    }

    fn event(&self, event: &Event<'_>) {
        self.0.lock().unwrap().push(*event.metadata().level());
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
