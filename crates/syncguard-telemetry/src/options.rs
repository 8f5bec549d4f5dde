//! The options of the telemetry.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use syncguard_core::Key;

use crate::LockEvent;
use crate::families::Families;
use crate::gauges::GaugeChange;

/// Gets the short name of the backend, and the family `other` if keys have families.
pub(crate) type BeginSink = Box<dyn Fn(&'static str, Option<Arc<str>>) + Send + Sync>;
pub(crate) type GaugeSink = Box<dyn Fn(&GaugeChange) + Send + Sync>;
pub(crate) type Sink = Box<dyn Fn(&LockEvent) + Send + Sync>;
pub(crate) type Predicate = Box<dyn Fn(&LockEvent) -> bool + Send + Sync>;

/// The callbacks for events, and the contents of events. TypeScript: `TelemetryOptions`.
///
/// ```
/// use syncguard_telemetry::{EventKind, TelemetryOptions};
///
/// let options = TelemetryOptions::new()
///     .with_on_event(|event| println!("{event:?}"))
///     .with_include_raw(|event| event.kind == EventKind::Hold);
/// ```
#[must_use]
pub struct TelemetryOptions {
    pub(crate) sinks: Vec<Sink>,
    /// Includes raw keys and lock ids. Never without one.
    pub(crate) include_raw: Option<Predicate>,
    pub(crate) capacity: usize,
    /// True if a sink logs through `tracing`, which needs the caller's span.
    pub(crate) logs: bool,
    /// Are told of the backend before its first operation.
    pub(crate) begins: Vec<BeginSink>,
    /// Count current waiters and holders.
    pub(crate) gauges: Vec<GaugeSink>,
    pub(crate) families: Option<Families>,
}

impl TelemetryOptions {
    /// The default of [`with_queue_capacity`](Self::with_queue_capacity).
    const QUEUE_CAPACITY: usize = 4096;

    /// Options without a callback, and without raw keys and lock ids.
    pub fn new() -> Self {
        Self {
            sinks: Vec::new(),
            include_raw: None,
            capacity: Self::QUEUE_CAPACITY,
            logs: false,
            begins: Vec::new(),
            gauges: Vec::new(),
            families: None,
        }
    }

    /// Calls this with every event, in the order in which they happened. TypeScript: `onEvent`.
    ///
    /// The calls are made on one thread of the telemetry's own, one call at a time. A callback may block, but then events
    /// queue up, and events that wait when the program ends are lost. Nothing else waits for a callback. It runs inside
    /// the tokio runtime of the operation, if there was one, so it may spawn tasks. A panic ends only that call.
    /// Several callbacks are called in the order in which they were added.
    pub fn with_on_event(mut self, on_event: impl Fn(&LockEvent) + Send + Sync + 'static) -> Self {
        self.sinks.push(Box::new(on_event));
        self
    }

    /// Includes the raw key and lock id in the events for which the predicate returns `true`. Default: in none. TypeScript:
    /// `includeRaw`.
    ///
    /// For debugging only: keys name users and payments, and a lock id is enough to release its lock. The predicate sees the
    /// event without the raw values. A panic counts as `false`.
    pub fn with_include_raw(
        mut self,
        predicate: impl Fn(&LockEvent) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.include_raw = Some(Box::new(predicate));
        self
    }

    /// Names the family of each key, for [events](LockEvent::key_family), log lines and metrics. Default:
    /// no families.
    ///
    /// Keys cannot label a metric: there are too many, and they name users. A family is a common name of many keys. At
    /// most 100 names are kept; keys with other names are in the family `other`, and so are keys for which the function
    /// panics.
    ///
    /// Names are not hashed, so they must not identify a user. The function must be quick, because operations call it
    /// too, and must give a key the same name each time.
    ///
    /// ```
    /// use syncguard_telemetry::TelemetryOptions;
    ///
    /// let options = TelemetryOptions::new().with_key_family(|key| {
    ///     match key.expose().split(':').next() {
    ///         Some("payment") => "payment",
    ///         Some("job") => "job",
    ///         _ => "other",
    ///     }
    /// });
    /// ```
    pub fn with_key_family<F: Into<Cow<'static, str>>>(
        mut self,
        family: impl Fn(&Key) -> F + Send + Sync + 'static,
    ) -> Self {
        self.families = Some(Families::new(move |key| family(key).into()));
        self
    }

    /// How many events may wait for the callbacks; further events are dropped and counted. Default: 4096, of some 300
    /// bytes each. Zero counts as one.
    pub fn with_queue_capacity(mut self, events: usize) -> Self {
        self.capacity = events.max(1);
        self
    }
}

impl Default for TelemetryOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TelemetryOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let include_raw = if self.include_raw.is_some() { "by a predicate" } else { "never" };
        f.debug_struct("TelemetryOptions")
            .field("sinks", &self.sinks.len())
            .field("include_raw", &include_raw)
            .field("key_families", &self.families.is_some())
            .field("queue_capacity", &self.capacity)
            .finish()
    }
}
