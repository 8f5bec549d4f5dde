//! Events as metrics.

use std::sync::{Arc, Once};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter, UpDownCounter};

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
    /// | `syncguard.lock.wait_time` | histogram, `s` | how long `lock`, `acquire` and `try_acquire` took to get a lock or to give up | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.queue_time` | histogram, `s` | the part of the wait in which the caller stood behind other waiters of its process | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.attempts` | histogram, `{attempt}` | the attempts of each of these calls | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.hold_time` | histogram, `s` | how long guards held their locks | `syncguard.result`, `syncguard.loss` |
    /// | `syncguard.lock.contentions` | counter, `{contention}` | attempts that found the lock held by someone else | |
    /// | `syncguard.lock.waiting` | up-down counter, `{caller}` | calls that try for a lock right now | |
    /// | `syncguard.lock.held` | up-down counter, `{lock}` | guards that hold a lock right now | |
    /// | `syncguard.telemetry.dropped_events` | counter, `{event}` | [events dropped](crate::TelemetryHandle::dropped_events), by all backends of the process; no attribute | |
    /// | `syncguard.lock.lost` | counter, `{lock}` | locks that were lost while a guard held them | `syncguard.loss` |
    ///
    /// Errors are counted by the durations that carry an `error.type`, as the semantic conventions want it: the name of
    /// an [`ErrorCode`](syncguard_core::ErrorCode). Keys, lock ids and holders are never an attribute. With
    /// [`with_key_family`](Self::with_key_family), each value with a known key carries `syncguard.key_family`; a release
    /// and an extend know only the lock id. Waits and holds of a recipe carry `syncguard.recipe`, such as `election` or
    /// `semaphore`.
    ///
    /// Current waiters and holders are counted without the queue, so the counts stay right when events are dropped. A
    /// lost lock counts as held until the loss is noticed.
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
    wait_time: Histogram<f64>,
    queue_time: Histogram<f64>,
    attempts: Histogram<u64>,
    hold_time: Histogram<f64>,
    contentions: Counter<u64>,
    lost: Counter<u64>,
    waiting: UpDownCounter<i64>,
    held: UpDownCounter<i64>,
}

/// In seconds. The defaults of OpenTelemetry are for milliseconds.
const OPERATION: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.5, 1.0, 5.0];
const WAIT: [f64; 12] = [0.001, 0.005, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
const HOLD: [f64; 12] = [0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 3600.0];
const ATTEMPTS: [f64; 8] = [1.0, 2.0, 3.0, 5.0, 8.0, 12.0, 20.0, 50.0];

impl Metrics {
    fn new(meter: &Meter) -> Self {
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
        }
    }

    fn count(&self, change: &GaugeChange) {
        let counter = match change.gauge {
            Gauge::Waiters => &self.waiting,
            Gauge::Holders => &self.held,
        };
        let mut attributes = vec![backend(change.backend)];
        attributes.extend(change.key_family.clone().map(family));
        attributes.extend(change.recipe.map(recipe));
        counter.add(change.by, &attributes);
    }

    fn record(&self, event: &LockEvent) {
        let seconds = event.duration().as_secs_f64();
        let mut of_lock = vec![backend(event.backend())];
        of_lock.extend(event.key_family.clone().map(family));
        of_lock.extend(event.recipe().map(recipe));
        let mut attributes = of_lock.clone();
        attributes.push(KeyValue::new("syncguard.result", event.result().as_str()));
        if let Some(reason) = event.reason() {
            attributes.push(KeyValue::new("syncguard.reason", reason.as_str()));
        }
        if let Some(code) = event.error_code() {
            attributes.push(KeyValue::new("error.type", code.as_str()));
        }
        match event.kind() {
            EventKind::Wait => {
                self.wait_time.record(seconds, &attributes);
                let queued = event.queued().unwrap_or_default().as_secs_f64();
                self.queue_time.record(queued, &attributes);
                self.attempts.record(event.attempts().unwrap_or_default().into(), &attributes);
            }
            EventKind::Hold => {
                if let Some(loss) = event.loss() {
                    let loss = KeyValue::new("syncguard.loss", loss.as_str());
                    attributes.push(loss.clone());
                    of_lock.push(loss);
                    self.lost.add(1, &of_lock);
                }
                self.hold_time.record(seconds, &attributes);
            }
            kind => {
                attributes.push(KeyValue::new("syncguard.operation", kind.as_str()));
                self.operation_duration.record(seconds, &attributes);
                if event.reason() == Some(Reason::Locked) {
                    self.contentions.add(1, &of_lock);
                }
            }
        }
    }
}

fn backend(name: &'static str) -> KeyValue {
    KeyValue::new("syncguard.backend", name)
}

fn recipe(name: &'static str) -> KeyValue {
    KeyValue::new("syncguard.recipe", name)
}

fn family(name: Arc<str>) -> KeyValue {
    KeyValue::new("syncguard.key_family", name)
}
