//! Events as metrics.

use opentelemetry::KeyValue;
use opentelemetry::metrics::{Counter, Histogram, Meter};

use crate::{EventKind, LockEvent, Reason, TelemetryOptions};

impl TelemetryOptions {
    /// Keeps metrics with this OpenTelemetry meter: `opentelemetry::global::meter("syncguard")`, or
    /// one of a `MeterProvider` of the program's own.
    ///
    /// | instrument | kind, unit | what | attributes beside `syncguard.backend` |
    /// |---|---|---|---|
    /// | `syncguard.operation.duration` | histogram, `s` | each operation | `syncguard.operation`, `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.wait_time` | histogram, `s` | how long `lock`, `acquire` and `try_lock` took to get a lock, or to give up | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.attempts` | histogram, `{attempt}` | the attempts of each of these calls | `syncguard.result`, `syncguard.reason`, `error.type` |
    /// | `syncguard.lock.hold_time` | histogram, `s` | how long guards held their locks | `syncguard.result`, `syncguard.loss` |
    /// | `syncguard.lock.contentions` | counter, `{contention}` | attempts that found the lock held by someone else | |
    /// | `syncguard.lock.lost` | counter, `{lock}` | locks that were lost while a guard held them | `syncguard.loss` |
    ///
    /// Errors are counted by the durations that carry an `error.type`, as the semantic conventions
    /// want it: it is the name of an [`ErrorCode`](syncguard_core::ErrorCode). Keys and lock ids are
    /// never an attribute. The crate needs the API of OpenTelemetry only; it is
    /// [re-exported](crate::opentelemetry).
    ///
    /// ```
    /// use syncguard_telemetry::{TelemetryOptions, opentelemetry};
    ///
    /// let options =
    ///     TelemetryOptions::new().with_opentelemetry(&opentelemetry::global::meter("syncguard"));
    /// ```
    pub fn with_opentelemetry(self, meter: &Meter) -> Self {
        let metrics = Metrics::new(meter);
        self.with_on_event(move |event| metrics.record(event))
    }
}

struct Metrics {
    operation_duration: Histogram<f64>,
    wait_time: Histogram<f64>,
    attempts: Histogram<u64>,
    hold_time: Histogram<f64>,
    contentions: Counter<u64>,
    lost: Counter<u64>,
}

/// Seconds. The defaults of OpenTelemetry are made for milliseconds.
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
        }
    }

    fn record(&self, event: &LockEvent) {
        let seconds = event.duration.as_secs_f64();
        let backend = KeyValue::new("syncguard.backend", event.backend);
        let mut attributes = Vec::with_capacity(5);
        attributes.push(backend.clone());
        attributes.push(KeyValue::new("syncguard.result", event.result.as_str()));
        if let Some(reason) = event.reason {
            attributes.push(KeyValue::new("syncguard.reason", reason.as_str()));
        }
        if let Some(code) = event.error_code {
            attributes.push(KeyValue::new("error.type", code.as_str()));
        }
        match event.kind {
            EventKind::Wait => {
                self.wait_time.record(seconds, &attributes);
                self.attempts.record(event.attempts.unwrap_or_default().into(), &attributes);
            }
            EventKind::Hold => {
                if let Some(loss) = event.loss {
                    let loss = KeyValue::new("syncguard.loss", loss.as_str());
                    attributes.push(loss.clone());
                    self.lost.add(1, &[backend, loss]);
                }
                self.hold_time.record(seconds, &attributes);
            }
            kind => {
                attributes.push(KeyValue::new("syncguard.operation", kind.as_str()));
                self.operation_duration.record(seconds, &attributes);
                if event.reason == Some(Reason::Locked) {
                    self.contentions.add(1, &[backend]);
                }
            }
        }
    }
}
