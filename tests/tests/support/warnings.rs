//! How often the library warns.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};

use tracing::span::{Attributes, Id, Record};
use tracing::{Dispatch, Event, Level, Metadata, Subscriber};

/// Counts warnings and errors that the library logs on threads where this is the subscriber.
#[derive(Clone, Debug, Default)]
pub(crate) struct Warnings(Arc<AtomicUsize>);

impl Warnings {
    /// Beside these, a subscriber that no thread uses stays for ever: with a single one, `tracing` asks only the thread
    /// that reaches an event first whether it has a subscriber, and keeps the answer for all threads.
    pub(crate) fn new() -> Self {
        static UNUSED: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Warnings::default()));
        LazyLock::force(&UNUSED);
        Self::default()
    }

    /// The number so far.
    pub(crate) fn count(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Subscriber for Warnings {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN && metadata.target().starts_with("syncguard")
    }

    fn event(&self, _: &Event<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}
    fn record_follows_from(&self, _: &Id, _: &Id) {}
    fn enter(&self, _: &Id) {}
    fn exit(&self, _: &Id) {}
}
