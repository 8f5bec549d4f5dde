//! The log of one thread, for the tests of this workspace.

use std::fmt::{self, Write};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use tracing::field::{Field, Visit};
use tracing::subscriber::DefaultGuard;
use tracing::{Dispatch, Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

/// Collects the events that are logged on one thread.
#[derive(Clone, Debug, Default)]
pub struct LogLines(Arc<Mutex<Vec<LogLine>>>);

/// An event, with its fields as `name=value`, and spaces between them.
#[derive(Clone, Debug)]
#[allow(clippy::exhaustive_structs, reason = "for the tests of this workspace")]
pub struct LogLine {
    /// How serious the event is.
    pub level: Level,
    /// The part of the program that logs it.
    pub target: &'static str,
    /// The name of the span in which it was logged.
    pub span: Option<&'static str>,
    /// The fields, with the message as `message`.
    pub text: String,
}

impl LogLines {
    /// Collects events of this thread until the guard is dropped.
    ///
    /// Beside this subscriber, one that no thread uses stays for ever: with a single one, `tracing` asks only the thread that
    /// reaches an event first whether it has a subscriber, and keeps the answer for all threads.
    #[must_use]
    pub fn collect() -> (Self, DefaultGuard) {
        static UNUSED: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(Registry::default()));
        LazyLock::force(&UNUSED);
        let lines = Self::default();
        let subscriber = Registry::default().with(lines.clone());
        (lines, tracing::subscriber::set_default(subscriber))
    }

    /// The events since the last call.
    #[must_use]
    pub fn take(&self) -> Vec<LogLine> {
        std::mem::take(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogLines {
    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut text = Text::default();
        event.record(&mut text);
        let (level, target) = (*event.metadata().level(), event.metadata().target());
        let span = context.event_span(event).map(|span| span.name());
        let line = LogLine { level, target, span, text: text.0 };
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(line);
    }
}

/// The fields of an event in one text.
#[derive(Default)]
pub(crate) struct Text(pub(crate) String);

impl Visit for Text {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let space = if self.0.is_empty() { "" } else { " " };
        // Writing to a string cannot fail.
        let _ = write!(self.0, "{space}{field}={value:?}");
    }
}
