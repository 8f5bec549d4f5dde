//! The alerts and the dashboard use the names that Prometheus gets.

#![cfg(feature = "opentelemetry")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::{KEY, Store, TTL, take};
use opentelemetry_sdk::metrics::data::{
    AggregatedMetrics, HistogramDataPoint, Metric, MetricData, ResourceMetrics, ScopeMetrics,
    SumDataPoint,
};
use opentelemetry_sdk::metrics::{InMemoryMetricExporter, PeriodicReader, SdkMeterProvider};
use serde_json::Value;
use syncguard_memory::contract::{ExtendRequest, ReleaseRequest, TIME_TOLERANCE};
use syncguard_memory::{AcquisitionOptions, ErrorCode, LockBackend, LockConfig, acquire, lock};
use syncguard_telemetry::opentelemetry::KeyValue;
use syncguard_telemetry::opentelemetry::metrics::MeterProvider as _;
use syncguard_telemetry::{TelemetryOptions, with_telemetry};
use tokio::time::sleep;
use yaml_rust2::{Yaml, YamlLoader};

/// Metrics with their labels, and the values of each label. No values stand for any value.
type Known = BTreeMap<String, BTreeMap<String, BTreeSet<String>>>;

/// The metrics that others export. A test of the command compares the first four with what it prints.
const OTHERS: [(&str, &[&str]); 5] = [
    ("syncguard_lock_age_seconds", &["holder", "key"]),
    ("syncguard_lock_expires_in_seconds", &["holder", "key"]),
    ("syncguard_lock_info", &["holder", "key"]),
    ("syncguard_lock_records_corrupt", &[]),
    ("node_textfile_mtime_seconds", &["file"]),
];

#[tokio::test(start_paused = true)]
async fn alerts_use_metrics_that_exist_and_each_one_is_tested() {
    let known = known().await;
    let tests = file("prometheus/alerts.test.yml");
    let guide = file("../syncguard/src/guide/production.md");
    for (name, rule) in alerts() {
        let used = Used::by(text(&rule["expr"]));
        used.check(&known).unwrap_or_else(|error| panic!("{name}: {error}"));
        let annotations = &rule["annotations"];
        for annotation in [&annotations["summary"], &annotations["description"]] {
            used.shows("$labels.", text(annotation), &known)
                .unwrap_or_else(|error| panic!("{name}: {error}"));
        }
        assert!(tests.contains(&format!("alertname: {name}\n")), "{name} fires in no test");
        assert!(guide.contains(&format!("`{name}`")), "{name} is not in the guide");
    }
}

#[tokio::test(start_paused = true)]
async fn the_dashboard_uses_metrics_that_exist() {
    let known = known().await;
    let dashboard: Value = serde_json::from_str(&file("grafana/dashboard.json")).unwrap();
    let mut shown = BTreeSet::new();
    for panel in dashboard["panels"].as_array().unwrap() {
        for target in panel["targets"].as_array().into_iter().flatten() {
            let used = Used::by(target["expr"].as_str().unwrap());
            used.check(&known).unwrap_or_else(|error| panic!("{}: {error}", panel["title"]));
            used.shows("{{", target["legendFormat"].as_str().unwrap(), &known)
                .unwrap_or_else(|error| panic!("{}: {error}", panel["title"]));
            shown.extend(used.metrics);
        }
    }
    for variable in dashboard["templating"]["list"].as_array().unwrap() {
        let Some(query) = variable["query"]["query"].as_str() else { continue };
        let arguments = query.strip_prefix("label_values(").and_then(|it| it.strip_suffix(")"));
        let (metric, label) = arguments.unwrap().split_once(", ").unwrap();
        assert!(known[metric].contains_key(label), "{query}");
    }
    // Nothing that is exported is left out: each histogram in one form at least.
    let stem = |name: &str| {
        let ends = ["_bucket", "_count", "_sum"];
        ends.iter().find_map(|end| name.strip_suffix(end)).unwrap_or(name).to_owned()
    };
    let shown: BTreeSet<String> = shown.iter().map(|name| stem(name)).collect();
    let exported =
        known.keys().filter(|name| name.starts_with("syncguard_")).map(|name| stem(name));
    assert_eq!(shown, exported.collect());
}

#[tokio::test(start_paused = true)]
async fn the_guide_names_metrics_and_labels_that_exist() {
    let known = known().await;
    let labels: BTreeSet<&str> =
        known.values().flat_map(|it| it.keys()).map(String::as_str).collect();
    let guide = file("../syncguard/src/guide/production.md");
    let metrics = guide.split_once("\n## Metrics and alerts\n").unwrap().1;
    let metrics = metrics.split_once("\n## ").unwrap().0;
    let mut names = 0;
    for word in metrics.split(|char: char| !char.is_ascii_alphanumeric() && char != '_') {
        if word.starts_with("syncguard_") {
            assert!(known.contains_key(word) || labels.contains(word), "{word}");
            names += 1;
        }
    }
    assert!(names > 10, "{names}");
}

/// No metric of a program has the name of a metric of the command.
#[tokio::test(start_paused = true)]
async fn programs_and_the_command_share_no_name() {
    let programs = exported().await;
    assert!(programs.contains_key("syncguard_lock_held"), "{programs:?}");
    for (name, _) in OTHERS {
        assert!(!programs.contains_key(name), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_wrong_name_is_noticed() {
    let known = known().await;
    let check = |query: &str| Used::by(query).check(&known);
    let fine = "sum by (job, error_type) (rate(syncguard_operation_errors_total\
                {error_type=~\"AuthFailed|Internal\", job=~\"$job\"}[5m])) > 0.5";
    check(fine).unwrap();
    for (right, wrong) in [
        ("errors_total", "errors"),
        ("{error_type", "{error.type"),
        ("{error_type", "{error"),
        ("error_type)", "error)"),
        ("by (job", "by (syncguard_loss"),
        ("Internal", "Internals"),
        (" > 0.5", " > limit"),
    ] {
        let query = fine.replacen(right, wrong, 1);
        assert_ne!(query, fine);
        assert!(check(&query).is_err(), "{query}");
    }
    let used = Used::by(fine);
    used.shows("{{", "{{job}} {{error_type}}", &known).unwrap();
    assert!(used.shows("{{", "{{syncguard_backend}}", &known).is_err());
    assert!(used.shows("$labels.", "of {{ $labels.error }}", &known).is_err());
}

fn file(name: &str) -> String {
    fs::read_to_string(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(name)).unwrap()
}

/// The alerts, by name.
fn alerts() -> Vec<(String, Yaml)> {
    let documents = YamlLoader::load_from_str(&file("prometheus/alerts.yml")).unwrap();
    let groups = documents[0]["groups"].as_vec().unwrap();
    let rules = groups.iter().flat_map(|group| group["rules"].as_vec().unwrap());
    rules.map(|rule| (text(&rule["alert"]).to_owned(), rule.clone())).collect()
}

fn text(yaml: &Yaml) -> &str {
    yaml.as_str().unwrap()
}

/// The metrics of programs and of [`OTHERS`]. Prometheus adds `job` and `instance`.
async fn known() -> Known {
    let mut known = exported().await;
    for (name, labels) in OTHERS {
        let labels = labels.iter().map(|label| ((*label).to_owned(), BTreeSet::new()));
        known.insert(name.to_owned(), labels.collect());
    }
    for labels in known.values_mut() {
        labels.extend(["instance", "job"].map(|label| (label.to_owned(), BTreeSet::new())));
    }
    known
}

/// The metrics of a program that meets contention, a loss, errors and locks that are over.
async fn exported() -> Known {
    let exporter = InMemoryMetricExporter::default();
    let reader = PeriodicReader::builder(exporter.clone()).build();
    let provider = SdkMeterProvider::builder().with_reader(reader).build();
    let options = TelemetryOptions::new()
        .with_opentelemetry(&provider.meter("syncguard"))
        .with_key_family(|_| "payment");
    let store = Store::default();
    let backend = with_telemetry(store.clone(), options);

    let impatient = AcquisitionOptions::new().with_timeout(Duration::from_millis(10));
    let guard = acquire(&backend, LockConfig::new(KEY).with_ttl(TTL)).await.unwrap();
    let again = LockConfig::new(KEY).with_acquisition(impatient);
    acquire(&backend, again).await.unwrap_err();
    let leader = LockConfig::new("leader").with_recipe("election");
    lock(&backend, leader, async |_| ()).await.unwrap();
    store.fail(ErrorCode::ServiceUnavailable, 1);
    backend.extend(ExtendRequest::new(guard.lock_id(), TTL).unwrap()).await.unwrap_err();
    guard.lost().await;
    sleep(TIME_TOLERANCE + TIME_TOLERANCE).await;
    let _ = backend.extend(ExtendRequest::new(guard.lock_id(), TTL).unwrap()).await.unwrap();
    drop(guard);
    let lock_id = take(&backend, "over").await.lock_id;
    for _ in 0..2 {
        let _ = backend.release(ReleaseRequest::new(lock_id)).await.unwrap();
    }

    backend.telemetry().flush().await;
    provider.force_flush().unwrap();
    let collected = exporter.get_finished_metrics().unwrap();
    let scopes = collected.iter().flat_map(ResourceMetrics::scope_metrics);
    let mut known = Known::new();
    for metric in scopes.flat_map(ScopeMetrics::metrics) {
        add(&mut known, metric);
    }
    known
}

/// Adds a metric under the names that the [rules of OpenTelemetry][rules] give it in Prometheus.
///
/// [rules]: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
fn add(known: &mut Known, metric: &Metric) {
    let mut name = metric.name().replace('.', "_");
    match metric.unit() {
        "s" => name += "_seconds",
        annotation => assert!(annotation.starts_with('{'), "{annotation}: a unit has a suffix"),
    }
    let (suffixes, labels): (&[&str], _) = match metric.data() {
        AggregatedMetrics::F64(MetricData::Histogram(of)) => (
            &["_bucket", "_count", "_sum"],
            labels(of.data_points().map(HistogramDataPoint::attributes)),
        ),
        AggregatedMetrics::U64(MetricData::Histogram(of)) => (
            &["_bucket", "_count", "_sum"],
            labels(of.data_points().map(HistogramDataPoint::attributes)),
        ),
        AggregatedMetrics::U64(MetricData::Sum(of)) => {
            assert!(of.is_monotonic());
            (&["_total"], labels(of.data_points().map(SumDataPoint::attributes)))
        }
        AggregatedMetrics::I64(MetricData::Sum(of)) => {
            assert!(!of.is_monotonic());
            (&[""], labels(of.data_points().map(SumDataPoint::attributes)))
        }
        other => panic!("{other:?}"),
    };
    for suffix in suffixes {
        let mut labels = labels.clone();
        if *suffix == "_bucket" {
            labels.insert("le".to_owned(), BTreeSet::new());
        }
        known.insert(name.clone() + suffix, labels);
    }
}

fn labels<'a, A>(points: impl Iterator<Item = A>) -> BTreeMap<String, BTreeSet<String>>
where
    A: Iterator<Item = &'a KeyValue>,
{
    let mut labels = BTreeMap::<String, BTreeSet<String>>::new();
    for pair in points.flatten() {
        let label = pair.key.as_str().replace('.', "_");
        labels.entry(label).or_default().insert(pair.value.to_string());
    }
    labels
}

/// The names that a query uses. Promtool checks its syntax in CI.
#[derive(Default)]
struct Used {
    metrics: Vec<String>,
    /// A metric, and the label and the values that it must have.
    selected: Vec<(String, String, Vec<String>)>,
    /// The labels that it groups by.
    grouped: Vec<String>,
    /// Words that are neither.
    odd: Vec<String>,
}

impl Used {
    fn by(query: &str) -> Self {
        let tokens = tokens(query);
        let mut used = Self::default();
        let mut at = 0;
        while let Some(token) = tokens.get(at) {
            let next = tokens.get(at + 1).copied().unwrap_or_default();
            at += 1;
            match *token {
                "by" => at += used.group(&tokens[at..]),
                "{" => at += used.select(&tokens[at..]),
                // A range, such as `[5m]`.
                "[" => at += tokens[at..].iter().take_while(|it| **it != "]").count(),
                "and" | "count" | "sum" => {}
                // A function.
                word if is_word(word) && next == "(" => {}
                word if is_word(word) && word.contains('_') => used.metrics.push(word.to_owned()),
                word if is_word(word) => used.odd.push(word.to_owned()),
                _ => {}
            }
        }
        used
    }

    /// Reads the labels behind `by`. Returns the number of their tokens.
    fn group(&mut self, tokens: &[&str]) -> usize {
        let labels = tokens.iter().take_while(|it| **it != ")");
        self.grouped.extend(labels.clone().filter(|it| is_word(it)).map(|it| (*it).to_owned()));
        labels.count()
    }

    /// Reads the labels in braces. Returns the number of their tokens.
    fn select(&mut self, tokens: &[&str]) -> usize {
        let end = tokens.iter().position(|it| *it == "}").unwrap();
        for matcher in tokens[..end].split(|it| *it == ",") {
            let [label, operator, value] = matcher else {
                self.odd.push(matcher.concat());
                continue;
            };
            // The label has to exist, and its values, but for those that a query leaves out or Grafana fills in.
            let values = match *operator {
                "=" | "=~" if !value.contains(['$', '.']) => value.trim_matches('"').split('|'),
                _ => "".split('|'),
            };
            let values = values.filter(|it| !it.is_empty()).map(str::to_owned).collect();
            let metric = self.metrics.last().unwrap().clone();
            self.selected.push((metric, (*label).to_owned(), values));
        }
        end
    }

    fn check(&self, known: &Known) -> Result<(), String> {
        if !self.odd.is_empty() {
            return Err(format!("not understood: {:?}", self.odd));
        }
        for metric in &self.metrics {
            let labels = known.get(metric).ok_or_else(|| format!("no metric {metric}"))?;
            if let Some(label) = self.grouped.iter().find(|label| !labels.contains_key(*label)) {
                return Err(format!("{metric} has no label {label}"));
            }
        }
        for (metric, label, values) in &self.selected {
            let of = known[metric].get(label).ok_or_else(|| format!("{metric}: no {label}"))?;
            if let Some(value) = values.iter().find(|it| !of.is_empty() && !of.contains(*it)) {
                return Err(format!("{metric}: {label} is never {value}"));
            }
        }
        Ok(())
    }

    /// Checks the labels in a text that come after `mark`.
    fn shows(&self, mark: &str, text: &str, known: &Known) -> Result<(), String> {
        let all = self.metrics.iter().flat_map(|metric| known[metric].keys());
        let left: Vec<&String> =
            if self.grouped.is_empty() { all.collect() } else { self.grouped.iter().collect() };
        for after in text.split(mark).skip(1) {
            let end = after.find(|char: char| !is_part(char)).unwrap_or(after.len());
            if !left.iter().any(|label| *label == &after[..end]) {
                return Err(format!("no label {:?} is left", &after[..end]));
            }
        }
        Ok(())
    }
}

/// Words and numbers, quoted texts, and the operators of labels are one token each.
fn tokens(query: &str) -> Vec<&str> {
    let (mut tokens, mut rest) = (Vec::new(), query.trim_start());
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '"' => 2 + rest[1..].find('"').unwrap(),
            '=' | '!' if rest[1..].starts_with(['=', '~']) => 2,
            first if is_part(first) => rest.find(|char| !is_part(char)).unwrap_or(rest.len()),
            first => first.len_utf8(),
        };
        tokens.push(&rest[..length]);
        rest = rest[length..].trim_start();
    }
    tokens
}

fn is_part(char: char) -> bool {
    char.is_ascii_alphanumeric() || char == '_'
}

fn is_word(token: &str) -> bool {
    token.starts_with(|char: char| char.is_ascii_alphabetic() || char == '_')
}
