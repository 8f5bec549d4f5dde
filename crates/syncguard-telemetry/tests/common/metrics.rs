//! The metrics, as an exporter gets them.

use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use syncguard_memory::LockBackend;
use syncguard_telemetry::opentelemetry::KeyValue;
use syncguard_telemetry::opentelemetry::metrics::{Meter, MeterProvider as _};
use syncguard_telemetry::{Telemetry, TelemetryOptions};

/// A provider of meters, whose metrics stay in memory.
pub(crate) struct Exported {
    pub(crate) exporter: InMemoryMetricExporter,
    provider: SdkMeterProvider,
}

impl Exported {
    pub(crate) fn new() -> Self {
        let exporter = InMemoryMetricExporter::default();
        let reader = PeriodicReader::builder(exporter.clone()).build();
        let provider = SdkMeterProvider::builder().with_reader(reader).build();
        Self { exporter, provider }
    }

    pub(crate) fn options(&self) -> TelemetryOptions {
        TelemetryOptions::new().with_opentelemetry(&self.meter())
    }

    pub(crate) fn meter(&self) -> Meter {
        self.provider.meter("syncguard")
    }

    /// The metrics after all events so far.
    pub(crate) async fn metrics<B: LockBackend>(&self, of: &Telemetry<B>) -> Metrics {
        of.telemetry().flush().await;
        self.now()
    }

    /// The metrics now, without the events that wait.
    pub(crate) fn now(&self) -> Metrics {
        self.exporter.reset();
        self.provider.force_flush().unwrap();
        Metrics::of(&self.exporter)
    }
}

pub(crate) type Attributes = Vec<(String, String)>;

pub(crate) fn sorted(attributes: &[(&str, &str)]) -> Attributes {
    let owned = attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    let mut attributes: Attributes = owned.collect();
    attributes.sort();
    attributes
}

/// The metrics that were exported: name, unit and values.
pub(crate) struct Metrics(pub(crate) Vec<(String, String, Data)>);

pub(crate) struct Data {
    /// `counter`, `up-down`, `gauge` or `histogram`.
    pub(crate) kind: &'static str,
    /// Attributes, count and sum.
    points: Vec<(Attributes, u64, f64)>,
}

impl Metrics {
    fn of(exporter: &InMemoryMetricExporter) -> Self {
        let mut metrics = Vec::new();
        for resource in exporter.get_finished_metrics().unwrap() {
            for metric in resource.scope_metrics().flat_map(ScopeMetrics::metrics) {
                let data = Data::of(metric.data());
                metrics.push((metric.name().to_owned(), metric.unit().to_owned(), data));
            }
        }
        Self(metrics)
    }

    fn find(&self, name: &str, unit: &str, kind: &str) -> Vec<(Attributes, u64, f64)> {
        let found = self.0.iter().find(|(found, ..)| found == name);
        let (_, found, data) = found.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!((found.as_str(), data.kind), (unit, kind), "{name}");
        data.points.clone()
    }

    pub(crate) fn histogram(&self, name: &str, unit: &str) -> Vec<(Attributes, u64, f64)> {
        self.find(name, unit, "histogram")
    }

    pub(crate) fn counter(&self, name: &str, unit: &str) -> Vec<(Attributes, u64)> {
        self.find(name, unit, "counter").into_iter().map(|point| (point.0, point.1)).collect()
    }

    pub(crate) fn now(&self, name: &str, unit: &str) -> Vec<(Attributes, u64)> {
        self.find(name, unit, "up-down").into_iter().map(|point| (point.0, point.1)).collect()
    }

    /// The value of the gauge with this attribute.
    pub(crate) fn gauge(&self, name: &str, unit: &str, attribute: (&str, &str)) -> f64 {
        let attribute = (attribute.0.to_owned(), attribute.1.to_owned());
        let points = self.find(name, unit, "gauge");
        let mut found = points.iter().filter(|(attributes, ..)| attributes.contains(&attribute));
        found.next().unwrap_or_else(|| panic!("no {attribute:?}")).2
    }
}

impl Data {
    pub(crate) fn attributes(&self) -> impl Iterator<Item = &(String, String)> {
        self.points.iter().flat_map(|(attributes, ..)| attributes)
    }

    fn of(metric: &AggregatedMetrics) -> Self {
        #[allow(clippy::cast_precision_loss, reason = "a handful of attempts")]
        let (kind, mut points): (_, Vec<_>) = match metric {
            AggregatedMetrics::F64(MetricData::Histogram(it)) => {
                let rounded = |sum: f64| (sum * 1e6).round() / 1e6;
                let points = it.data_points();
                let points =
                    points.map(|it| (texts(it.attributes()), it.count(), rounded(it.sum())));
                ("histogram", points.collect())
            }
            AggregatedMetrics::U64(MetricData::Histogram(it)) => {
                let points = it.data_points();
                let points = points.map(|it| (texts(it.attributes()), it.count(), it.sum() as f64));
                ("histogram", points.collect())
            }
            AggregatedMetrics::U64(MetricData::Sum(it)) if it.is_monotonic() => {
                let points = it.data_points().map(|it| (texts(it.attributes()), it.value(), 0.0));
                ("counter", points.collect())
            }
            AggregatedMetrics::I64(MetricData::Sum(it)) if !it.is_monotonic() => {
                let value = |value: i64| u64::try_from(value).unwrap();
                let points = it.data_points();
                let points = points.map(|it| (texts(it.attributes()), value(it.value()), 0.0));
                ("up-down", points.collect())
            }
            AggregatedMetrics::F64(MetricData::Gauge(it)) => {
                let points = it.data_points().map(|it| (texts(it.attributes()), 0, it.value()));
                ("gauge", points.collect())
            }
            other => panic!("{other:?}"),
        };
        points.sort_by(|one, other| one.0.cmp(&other.0));
        Self { kind, points }
    }
}

fn texts<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Attributes {
    let mut texts: Attributes =
        attributes.map(|pair| (pair.key.to_string(), pair.value.to_string())).collect();
    texts.sort();
    texts
}
