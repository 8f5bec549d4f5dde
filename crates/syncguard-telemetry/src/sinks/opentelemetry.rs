//! Events as metrics.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, Once, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};
use syncguard_core::{ErrorCode, LossReason};

use super::holds;
use crate::gauges::{Gauge, GaugeChange};
use crate::queue::dropped_by_all;
use crate::{EventKind, LockEvent, Reason, TelemetryOptions};

impl TelemetryOptions {
    /// Keeps metrics with this OpenTelemetry meter, of **version 0.33** of the crate `opentelemetry`, which is
    /// [re-exported](crate::opentelemetry) here. A meter of another version does not compile, and the global provider of
    /// another version is not seen.
    ///
    /// Best pass a meter of the program's own provider. `opentelemetry::global::meter("syncguard")` works too, if the
    /// provider was set before: a meter that was made earlier never keeps anything. Such a meter is logged as a warning
    /// once.
    ///
    /// | instrument | kind, unit | what | attributes beside `syncguard.backend` |
    /// |---|---|---|---|
    /// | `syncguard.operation.duration` | histogram, `s` | each operation | `syncguard.operation`, `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.operation.errors` | counter, `{error}` | operations that ended with an error; none for those that the caller gave up | `error.type` |
    /// | `syncguard.lock.wait_time` | histogram, `s` | how long `lock`, `acquire` and `try_acquire` took to get a lock or to give up | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.queue_time` | histogram, `s` | the part of the wait in which the caller stood behind other waiters of its process | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.attempts` | histogram, `{attempt}` | the attempts of each of these calls | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.hold_time` | histogram, `s` | how long guards held their locks | `syncguard.result`, `syncguard.loss` |
    /// | `syncguard.lock.contentions` | counter, `{contention}` | attempts that found the lock held by someone else | |
    /// | `syncguard.lock.waiting` | up-down counter, `{caller}` | calls that try for a lock right now | |
    /// | `syncguard.lock.held` | up-down counter, `{lock}` | guards that hold a lock right now | |
    /// | `syncguard.lock.oldest_hold` | gauge, `s` | the age of the oldest hold of a guard right now, of all backends of the process; 0 if there is none | |
    /// | `syncguard.telemetry.dropped_events` | counter, `{event}` | [events dropped](crate::TelemetryHandle::dropped_events), by all backends of the process; no attribute | |
    /// | `syncguard.lock.lost` | counter, `{lock}` | locks that were lost while a guard held them | `syncguard.loss` |
    ///
    /// An `error.type` is the name of an [`ErrorCode`](syncguard_core::ErrorCode). Keys, lock ids and holders are
    /// never an attribute. With [`with_key_family`](Self::with_key_family), each value with a known key carries
    /// `syncguard.key_family`; a release and an extend know only the lock id, and `syncguard.operation.errors`
    /// never carries it. Waits and holds of a recipe carry
    /// `syncguard.recipe`, such as `election` or `semaphore`.
    ///
    /// Counters begin with zero, so that an alert for an increase sees the first failure: when the backend is wrapped,
    /// each error and each loss has its series. With key families these series are of the family `other`. The losses of
    /// another family, or of a recipe, have theirs from the first wait for such a lock. A histogram has a series from
    /// its first value.
    ///
    /// Current waiters and holders are counted without the queue, so the counts stay right when events are dropped. A
    /// lost lock counts as held until the loss is noticed, and a forgotten guard until the process ends.
    ///
    /// ```
    /// use opentelemetry_sdk::metrics::SdkMeterProvider;
    /// use syncguard_telemetry::TelemetryOptions;
    /// use syncguard_telemetry::opentelemetry::metrics::MeterProvider as _;
    ///
    /// # let exporter = opentelemetry_sdk::metrics::InMemoryMetricExporter::default();
    /// let provider = SdkMeterProvider::builder().with_periodic_exporter(exporter).build();
    /// let options = TelemetryOptions::new().with_opentelemetry(&provider.meter("syncguard"));
    /// ```
    pub fn with_opentelemetry(mut self, meter: &Meter) -> Self {
        if !keeps_anything(meter) {
            static WARNED: Once = Once::new();
            WARNED.call_once(|| {
                tracing::warn!(
                    "this OpenTelemetry meter keeps no metrics; make the meter provider first, and pass a meter of it"
                );
            });
        }
        let metrics = Arc::new(Metrics::new(meter));
        let begins = Arc::clone(&metrics);
        self.begins.push(Box::new(move |name, family| begins.begin(name, family)));
        let gauges = Arc::clone(&metrics);
        self.gauges.push(Box::new(move |change| gauges.count(change)));
        self.with_on_event(move |event| metrics.record(event))
    }
}

/// Registers the counter of dropped events. Returns true if the meter will ever ask for it: without a provider, a meter
/// drops the callback at once.
fn keeps_anything(meter: &Meter) -> bool {
    let ask: Arc<fn() -> u64> = Arc::new(dropped_by_all);
    let kept = Arc::downgrade(&ask);
    let _counter = meter
        .u64_observable_counter("syncguard.telemetry.dropped_events")
        .with_unit("{event}")
        .with_description("Events that were dropped because the callbacks did not keep up")
        .with_callback(move |observer| observer.observe(ask(), &[]))
        .build();
    kept.strong_count() > 0
}

struct Metrics {
    operation_duration: Histogram<f64>,
    errors: Counter<u64>,
    wait_time: Histogram<f64>,
    queue_time: Histogram<f64>,
    attempts: Histogram<u64>,
    hold_time: Histogram<f64>,
    contentions: Counter<u64>,
    lost: Counter<u64>,
    waiting: UpDownCounter<i64>,
    held: UpDownCounter<i64>,
    /// The locks whose losses and oldest holds have their series, by backend, family and recipe.
    begun: Arc<Mutex<HashSet<Vec<KeyValue>>>>,
}

/// In seconds. The defaults of OpenTelemetry are for milliseconds.
const OPERATION: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
const WAIT: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const HOLD: [f64; 14] =
    [0.01, 0.05, 0.075, 0.1, 0.25, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
const ATTEMPTS: [f64; 8] = [1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0];

/// The errors that an operation can end with. An operation that its caller gave up has not failed.
const ERRORS: [ErrorCode; 6] = [
    ErrorCode::ServiceUnavailable,
    ErrorCode::AuthFailed,
    ErrorCode::InvalidArgument,
    ErrorCode::RateLimited,
    ErrorCode::NetworkTimeout,
    ErrorCode::Internal,
];

/// The ways in which a holder can lose its lock.
const LOSSES: [LossReason; 5] = [
    LossReason::Expired,
    LossReason::NotHeld,
    LossReason::RecordLost,
    LossReason::MaxHold,
    LossReason::RenewerPanicked,
];

impl Metrics {
    fn new(meter: &Meter) -> Self {
        let begun = Arc::<Mutex<HashSet<_>>>::default();
        let all = Arc::clone(&begun);
        let _gauge = meter
            .f64_observable_gauge("syncguard.lock.oldest_hold")
            .with_unit("s")
            .with_description("Age of the oldest hold right now")
            .with_callback(move |observer| {
                let all = all.lock().unwrap_or_else(PoisonError::into_inner);
                holds::tell_oldest(&all, |age, of_lock| observer.observe(age, of_lock));
            })
            .build();
        let seconds = |name, description, boundaries: &[f64]| {
            let histogram = meter.f64_histogram(name).with_unit("s");
            histogram.with_description(description).with_boundaries(boundaries.to_vec()).build()
        };
        let counter = |name, unit, description| {
            meter.u64_counter(name).with_unit(unit).with_description(description).build()
        };
        let up_down = |name, unit, description| {
            meter.i64_up_down_counter(name).with_unit(unit).with_description(description).build()
        };
        Self {
            operation_duration: seconds(
                "syncguard.operation.duration",
                "Duration of lock operations on the store",
                &OPERATION,
            ),
            errors: counter(
                "syncguard.operation.errors",
                "{error}",
                "Lock operations that ended with an error",
            ),
            wait_time: seconds(
                "syncguard.lock.wait_time",
                "Time from asking for a lock to getting it or giving up",
                &WAIT,
            ),
            queue_time: seconds(
                "syncguard.lock.queue_time",
                "Time in the queue of the process, behind other waiters",
                &WAIT,
            ),
            attempts: meter
                .u64_histogram("syncguard.lock.attempts")
                .with_unit("{attempt}")
                .with_description("Attempts until a lock was granted or given up")
                .with_boundaries(ATTEMPTS.to_vec())
                .build(),
            hold_time: seconds(
                "syncguard.lock.hold_time",
                "Time from getting a lock to giving it back or losing it",
                &HOLD,
            ),
            contentions: counter(
                "syncguard.lock.contentions",
                "{contention}",
                "Attempts that found the lock held by someone else",
            ),
            lost: counter(
                "syncguard.lock.lost",
                "{lock}",
                "Locks that were lost while they were held",
            ),
            waiting: up_down(
                "syncguard.lock.waiting",
                "{caller}",
                "Calls that try for a lock right now",
            ),
            held: up_down("syncguard.lock.held", "{lock}", "Guards that hold a lock right now"),
            begun,
        }
    }

    /// Gives each counter its series, with zero.
    fn begin(&self, name: &'static str, key_family: Option<Arc<str>>) {
        let of_lock = of_lock(name, key_family, None);
        for code in ERRORS {
            self.errors.add(0, &[backend(name), error_type(code)]);
        }
        self.contentions.add(0, &of_lock);
        self.waiting.add(0, &of_lock);
        self.held.add(0, &of_lock);
        self.begin_losses(&of_lock);
    }

    /// Gives the losses of these locks their series, once.
    fn begin_losses(&self, of_lock: &[KeyValue]) {
        let mut begun = self.begun.lock().unwrap_or_else(PoisonError::into_inner);
        if begun.contains(of_lock) {
            return;
        }
        begun.insert(of_lock.to_vec());
        for reason in LOSSES {
            self.lost.add(0, &with(of_lock, loss(reason)));
        }
    }

    fn count(&self, change: &GaugeChange) {
        let counter = match change.gauge {
            Gauge::Waiters => &self.waiting,
            Gauge::Holders => &self.held,
        };
        let of_lock = of_lock(change.backend, change.key_family.clone(), change.recipe);
        counter.add(change.by, &of_lock);
        match change.gauge {
            Gauge::Holders if change.by > 0 => {
                self.begin_losses(&of_lock);
                holds::begin(change.lock_id, of_lock);
            }
            Gauge::Holders => holds::end(change.lock_id),
            Gauge::Waiters => {}
        }
    }

    fn record(&self, event: &LockEvent) {
        let seconds = event.duration.as_secs_f64();
        let of_lock = of_lock(event.backend, event.key_family.clone(), event.recipe);
        let mut attributes = of_lock.clone();
        attributes.push(KeyValue::new("syncguard.result", event.result.as_str()));
        if let Some(reason) = event.reason {
            attributes.push(KeyValue::new("syncguard.reason", reason.as_str()));
        }
        if let Some(code) = event.error_code {
            attributes.push(error_type(code));
        }
        match event.kind {
            EventKind::Wait => {
                self.wait_time.record(seconds, &attributes);
                let queued = event.queued.unwrap_or_default().as_secs_f64();
                self.queue_time.record(queued, &attributes);
                self.attempts.record(event.attempts.unwrap_or_default().into(), &attributes);
                self.begin_losses(&of_lock);
            }
            EventKind::Hold => {
                if let Some(reason) = event.loss {
                    attributes.push(loss(reason));
                    self.lost.add(1, &with(&of_lock, loss(reason)));
                }
                self.hold_time.record(seconds, &attributes);
            }
            kind => {
                attributes.push(KeyValue::new("syncguard.operation", kind.as_str()));
                self.operation_duration.record(seconds, &attributes);
                match event.error_code {
                    None | Some(ErrorCode::Aborted) => {}
                    Some(code) => {
                        self.errors.add(1, &[backend(event.backend), error_type(code)]);
                    }
                }
                if kind == EventKind::Acquire {
                    // Zero gives a new family its series.
                    let contended = event.reason == Some(Reason::Locked);
                    self.contentions.add(contended.into(), &of_lock);
                }
            }
        }
    }
}

/// The attributes of the lock in a metric.
fn of_lock(
    name: &'static str,
    key_family: Option<Arc<str>>,
    recipe: Option<&'static str>,
) -> Vec<KeyValue> {
    let family = key_family.map(|family| KeyValue::new("syncguard.key_family", family));
    let recipe = recipe.map(|recipe| KeyValue::new("syncguard.recipe", recipe));
    [Some(backend(name)), family, recipe].into_iter().flatten().collect()
}

fn with(attributes: &[KeyValue], one_more: KeyValue) -> Vec<KeyValue> {
    [attributes, &[one_more]].concat()
}

fn backend(name: &'static str) -> KeyValue {
    KeyValue::new("syncguard.backend", name)
}

fn error_type(code: ErrorCode) -> KeyValue {
    KeyValue::new("error.type", code.as_str())
}

fn loss(reason: LossReason) -> KeyValue {
    KeyValue::new("syncguard.loss", reason.as_str())
}
