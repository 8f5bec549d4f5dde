//! The metrics, as an exporter gets them.

use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, HistogramDataPoint, MetricData, SumDataPoint,
};
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

pub(crate) enum Data {
    Counter(Vec<(Attributes, u64)>),
    UpDown(Vec<(Attributes, i64)>),
    Gauge(Vec<(Attributes, f64)>),
    Histogram(Vec<(Attributes, u64, f64)>),
}

impl Metrics {
    pub(crate) fn of(exporter: &InMemoryMetricExporter) -> Self {
        let mut metrics = Vec::new();
        for resource in exporter.get_finished_metrics().unwrap() {
            for scope in resource.scope_metrics() {
                for metric in scope.metrics() {
                    let data = Data::of(metric.data());
                    metrics.push((metric.name().to_owned(), metric.unit().to_owned(), data));
                }
            }
        }
        Self(metrics)
    }

    fn find(&self, name: &str, unit: &str) -> &Data {
        let found = self.0.iter().find(|(found, ..)| found == name);
        let (_, found, data) = found.unwrap_or_else(|| panic!("no {name}"));
        assert_eq!(found, unit, "{name}");
        data
    }

    pub(crate) fn histogram(&self, name: &str, unit: &str) -> Vec<(Attributes, u64, f64)> {
        let Data::Histogram(points) = self.find(name, unit) else { panic!("{name}") };
        points.clone()
    }

    pub(crate) fn counter(&self, name: &str, unit: &str) -> Vec<(Attributes, u64)> {
        let Data::Counter(points) = self.find(name, unit) else { panic!("{name}") };
        points.clone()
    }

    pub(crate) fn now(&self, name: &str, unit: &str) -> Vec<(Attributes, i64)> {
        let Data::UpDown(points) = self.find(name, unit) else { panic!("{name}") };
        points.clone()
    }

    /// The value of the gauge with this attribute.
    pub(crate) fn gauge(&self, name: &str, unit: &str, attribute: (&str, &str)) -> f64 {
        let Data::Gauge(points) = self.find(name, unit) else { panic!("{name}") };
        let attribute = (attribute.0.to_owned(), attribute.1.to_owned());
        let mut found = points.iter().filter(|(attributes, _)| attributes.contains(&attribute));
        found.next().unwrap_or_else(|| panic!("no {attribute:?}")).1
    }
}

impl Data {
    pub(crate) fn attributes(&self) -> Vec<&Attributes> {
        match self {
            Self::Counter(points) => points.iter().map(|(attributes, _)| attributes).collect(),
            Self::UpDown(points) => points.iter().map(|(attributes, _)| attributes).collect(),
            Self::Gauge(points) => points.iter().map(|(attributes, _)| attributes).collect(),
            Self::Histogram(points) => points.iter().map(|(attributes, ..)| attributes).collect(),
        }
    }

    fn of(metric: &AggregatedMetrics) -> Self {
        match metric {
            AggregatedMetrics::F64(MetricData::Histogram(histogram)) => {
                Self::histogram(histogram.data_points(), |sum| sum)
            }
            #[allow(clippy::cast_precision_loss, reason = "a handful of attempts")]
            AggregatedMetrics::U64(MetricData::Histogram(histogram)) => {
                Self::histogram(histogram.data_points(), |sum| sum as f64)
            }
            AggregatedMetrics::U64(MetricData::Sum(sum)) => {
                assert!(sum.is_monotonic());
                Self::Counter(values(sum.data_points()))
            }
            AggregatedMetrics::I64(MetricData::Sum(sum)) => {
                assert!(!sum.is_monotonic());
                Self::UpDown(values(sum.data_points()))
            }
            AggregatedMetrics::F64(MetricData::Gauge(gauge)) => {
                let points = gauge.data_points();
                Self::Gauge(points.map(|it| (texts(it.attributes()), it.value())).collect())
            }
            other => panic!("{other:?}"),
        }
    }

    fn histogram<'a, T: Copy + 'a>(
        points: impl Iterator<Item = &'a HistogramDataPoint<T>>,
        seconds: impl Fn(T) -> f64,
    ) -> Self {
        let rounded = |sum: f64| (sum * 1e6).round() / 1e6;
        let point = |point: &HistogramDataPoint<T>| {
            (texts(point.attributes()), point.count(), rounded(seconds(point.sum())))
        };
        let mut points: Vec<_> = points.map(point).collect();
        points.sort_by(|one, other| one.0.cmp(&other.0));
        Self::Histogram(points)
    }
}

fn values<'a, T: Copy + Ord + 'a>(
    points: impl Iterator<Item = &'a SumDataPoint<T>>,
) -> Vec<(Attributes, T)> {
    let mut values: Vec<_> = points.map(|it| (texts(it.attributes()), it.value())).collect();
    values.sort();
    values
}

fn texts<'a>(attributes: impl Iterator<Item = &'a KeyValue>) -> Attributes {
    let mut texts: Attributes =
        attributes.map(|pair| (pair.key.to_string(), pair.value.to_string())).collect();
    texts.sort();
    texts
}
