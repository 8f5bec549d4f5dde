//! Watching the log.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};
use tracing_subscriber::filter::DynFilterFn;
use tracing_subscriber::layer::{Context, Layer, SubscriberExt};
use tracing_subscriber::registry::{LookupSpan, Registry};

use crate::context::fresh_text;
use crate::log_lines::Text;
use crate::outcome::Checked;

/// The layer through which the suite sees log lines.
///
/// The suite installs it for the process. If tests install a `tracing` subscriber of their own, the cases about logs
/// apply only if this layer is part of it, without a filter before it.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogWatch;

/// A logged event or span that contains a watched text.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) level: Level,
    pub(crate) text: String,
}

/// Collects the lines that contain one of some texts, in any thread, until it is dropped.
pub(crate) struct Watching(Arc<Watch>);

struct Watch {
    needles: Vec<String>,
    lines: Mutex<Vec<Line>>,
}

/// All watchers. Cases run side by side, and a driver may log from a thread of its own, so there is one subscriber
/// for the process, and each watcher filters by its own texts.
static WATCHES: Mutex<Vec<Arc<Watch>>> = Mutex::new(Vec::new());

/// The number of watchers, so that without a watcher nothing is formatted.
static WATCHING: AtomicUsize = AtomicUsize::new(0);

impl Watching {
    /// Starts to watch for these texts; `None` if the log cannot be seen.
    pub(crate) fn start(needles: Vec<String>) -> Checked<Option<Self>> {
        static INSTALLED: Once = Once::new();
        INSTALLED.call_once(|| {
            // Fails if the process has a subscriber already; the probe finds that out.
            let only_if_watched = DynFilterFn::new(|_, _| WATCHING.load(Ordering::Relaxed) > 0);
            let registry = Registry::default().with(only_if_watched).with(LogWatch);
            let _ = tracing::subscriber::set_global_default(registry);
        });
        let probe = fresh_text()?;
        let watching = Self::add(vec![probe.clone()]);
        tracing::trace!(%probe, "are logs visible?");
        let visible = !watching.lines().is_empty();
        Ok(visible.then(|| Self::add(needles)))
    }

    pub(crate) fn lines(&self) -> Vec<Line> {
        lock(&self.0.lines).clone()
    }

    fn add(needles: Vec<String>) -> Self {
        let watch = Arc::new(Watch { needles, lines: Mutex::default() });
        lock(&WATCHES).push(Arc::clone(&watch));
        WATCHING.fetch_add(1, Ordering::Relaxed);
        Self(watch)
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        WATCHING.fetch_sub(1, Ordering::Relaxed);
        lock(&WATCHES).retain(|watch| !Arc::ptr_eq(watch, &self.0));
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for LogWatch {
    fn on_new_span(&self, attributes: &Attributes<'_>, _: &Id, _: Context<'_, S>) {
        look(attributes.metadata(), |text| attributes.record(text));
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        if let Some(metadata) = context.metadata(id) {
            look(metadata, |text| values.record(text));
        }
    }

    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        look(event.metadata(), |text| event.record(text));
    }
}

fn look(metadata: &Metadata<'_>, record: impl FnOnce(&mut Text)) {
    if WATCHING.load(Ordering::Relaxed) == 0 {
        return;
    }
    let mut text = Text(format!("{}:", metadata.target()));
    record(&mut text);
    for watch in lock(&WATCHES).iter() {
        if watch.needles.iter().any(|needle| text.0.contains(needle)) {
            lock(&watch.lines).push(Line { level: *metadata.level(), text: text.0.clone() });
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
