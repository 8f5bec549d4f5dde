//! What is done with events.

use std::borrow::Cow;
use std::fmt;

use syncguard_core::Key;

use crate::LockEvent;
use crate::families::Families;
use crate::now::Change;

pub(crate) type Counter = Box<dyn Fn(&Change) + Send + Sync>;
pub(crate) type Sink = Box<dyn Fn(&LockEvent) + Send + Sync>;
pub(crate) type Predicate = Box<dyn Fn(&LockEvent) -> bool + Send + Sync>;

/// Where events go and what they carry. TypeScript: `TelemetryOptions`.
///
/// ```
/// use syncguard_telemetry::{EventKind, TelemetryOptions};
///
/// let options = TelemetryOptions::new()
///     .with_on_event(|event| println!("{event:?}"))
///     .with_include_raw_if(|event| event.kind() == EventKind::Hold);
/// ```
#[must_use]
pub struct TelemetryOptions {
    pub(crate) sinks: Vec<Sink>,
    pub(crate) include_raw: IncludeRaw,
    pub(crate) capacity: usize,
    /// Whether a sink logs through `tracing`. It wants to know where the caller was.
    pub(crate) logs: bool,
    /// What counts who waits and who holds.
    pub(crate) counters: Vec<Counter>,
    pub(crate) families: Option<Families>,
}

pub(crate) enum IncludeRaw {
    Never,
    Always,
    If(Predicate),
}

impl TelemetryOptions {
    /// How many events may wait for their callbacks unless the options say otherwise.
    pub const QUEUE_CAPACITY: usize = 4096;

    /// Events that go nowhere yet, without raw keys and lock ids.
    pub fn new() -> Self {
        Self {
            sinks: Vec::new(),
            include_raw: IncludeRaw::Never,
            capacity: Self::QUEUE_CAPACITY,
            logs: false,
            counters: Vec::new(),
            families: None,
        }
    }

    /// Calls this with every event, in the order in which they happened. TypeScript: `onEvent`.
    ///
    /// It is called on a thread of its own, one call at a time: it may block, but then events queue
    /// up, and those that wait when the program ends are lost. Nothing else waits for it. The thread is
    /// inside the tokio runtime of an operation, if there was one, so it may spawn tasks. A panic in
    /// it ends that call alone. Callbacks add up.
    pub fn with_on_event(mut self, on_event: impl Fn(&LockEvent) + Send + Sync + 'static) -> Self {
        self.sinks.push(Box::new(on_event));
        self
    }

    /// Whether events carry the raw key and lock id. Default: no. TypeScript: `includeRaw`.
    ///
    /// Keys name users and payments, and whoever has a lock id can release its lock: for debugging
    /// only.
    pub fn with_include_raw(mut self, include: bool) -> Self {
        self.include_raw = if include { IncludeRaw::Always } else { IncludeRaw::Never };
        self
    }

    /// Includes the raw key and lock id in those events for which this says `true`. TypeScript:
    /// `includeRaw` as a function.
    ///
    /// It sees the event without them. A panic in it counts as `false`.
    pub fn with_include_raw_if(
        mut self,
        predicate: impl Fn(&LockEvent) -> bool + Send + Sync + 'static,
    ) -> Self {
        self.include_raw = IncludeRaw::If(Box::new(predicate));
        self
    }

    /// Names the family of each key, for [events](LockEvent::key_family), log lines and metrics. Default:
    /// no families.
    ///
    /// Keys are no label for a metric: there are too many, and they name users. A family is what many of
    /// them have in common. At most 100 names are kept; keys with another name are in the family
    /// `other`. A panic counts as `other`, too.
    ///
    /// Names are not hashed, so let them tell nothing of whom a key is about. The function must be quick and
    /// give one key the same name each time: it is also called where locks are taken.
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

    /// How many events may wait for their callbacks; those beyond are dropped and counted. Default:
    /// 4096, of some 150 bytes each. Zero counts as one.
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
        let include_raw = match &self.include_raw {
            IncludeRaw::Never => "never",
            IncludeRaw::Always => "always",
            IncludeRaw::If(_) => "by a predicate",
        };
        f.debug_struct("TelemetryOptions")
            .field("sinks", &self.sinks.len())
            .field("include_raw", &include_raw)
            .field("key_families", &self.families.is_some())
            .field("queue_capacity", &self.capacity)
            .finish()
    }
}
