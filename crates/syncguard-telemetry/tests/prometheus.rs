//! The alerts and the dashboard use the names that Prometheus gets.

#![cfg(feature = "opentelemetry")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use crate::common::metrics::{Data, Exported};
use crate::common::{KEY, Store, TTL, take};
use serde_json::Value;
use syncguard_memory::authoring::recipes::as_recipe;
use syncguard_memory::contract::{ExtendRequest, ReleaseRequest, TIME_TOLERANCE};
use syncguard_memory::{AcquisitionOptions, ErrorCode, LockBackend, LockConfig, acquire, lock};
use syncguard_telemetry::with_telemetry;
use tokio::time::sleep;
use yaml_rust2::{Yaml, YamlLoader};

/// Metrics with their labels, and the values of each label. No values stand for any value.
type Known = BTreeMap<String, Labels>;
type Labels = BTreeMap<String, BTreeSet<String>>;

/// The metrics that others export. A test of the command compares them with what it prints, except the last one.
const OTHERS: [(&str, &[&str]); 8] = [
    ("syncguard_lock_age_seconds", &["holder", "key"]),
    ("syncguard_lock_expires_in_seconds", &["holder", "key"]),
    ("syncguard_lock_info", &["holder", "key"]),
    ("syncguard_lock_records_corrupt", &[]),
    ("syncguard_tick_begun_timestamp_seconds", &["key"]),
    ("syncguard_tick_done_timestamp_seconds", &["key"]),
    ("syncguard_tick_due_timestamp_seconds", &["key"]),
    ("node_textfile_mtime_seconds", &["file"]),
];

#[tokio::test(start_paused = true)]
async fn alerts_use_metrics_that_exist_and_each_one_is_tested() {
    let known = known().await;
    let tests = file("prometheus/alerts.test.yml");
    let guide = file("../syncguard/src/guide/production.md");
    for (name, rule) in alerts() {
        let used =
            Used::by(text(&rule["expr"]), &known).unwrap_or_else(|it| panic!("{name}: {it}"));
        for annotation in ["summary", "description"] {
            let annotation = text(&rule["annotations"][annotation]);
            assert_eq!(used.missing("$labels.", annotation), [""; 0], "{name}");
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
            let (title, query) = (&panel["title"], target["expr"].as_str().unwrap());
            let used = Used::by(query, &known).unwrap_or_else(|error| panic!("{title}: {error}"));
            let legend = target["legendFormat"].as_str().unwrap();
            assert_eq!(used.missing("{{", legend), [""; 0], "{title}");
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
    let fine = "sum by (job, error_type) (rate(syncguard_operation_errors_total\
                {error_type=~\"AuthFailed|Internal\", job=~\"$job\"}[5m])) > 0.5";
    let used = Used::by(fine, &known).unwrap();
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
        assert!(Used::by(&query, &known).is_err(), "{query}");
    }
    assert_eq!(used.missing("{{", "{{job}} {{error_type}}"), [""; 0]);
    assert_eq!(used.missing("{{", "{{syncguard_backend}}"), ["syncguard_backend"]);
    assert_eq!(used.missing("$labels.", "of {{ $labels.error }}"), ["error"]);
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
    let exported = Exported::new();
    let store = Store::default();
    let backend = with_telemetry(store.clone(), exported.options().with_key_family(|_| "payment"));

    let impatient = AcquisitionOptions::new().with_timeout(Duration::from_millis(10));
    let guard = acquire(&backend, LockConfig::new(KEY).with_ttl(TTL)).await.unwrap();
    let again = LockConfig::new(KEY).with_acquisition(impatient);
    acquire(&backend, again).await.unwrap_err();
    let leader = as_recipe("leader", "election");
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

    let metrics = exported.metrics(&backend).await;
    metrics.0.iter().flat_map(|(name, unit, data)| in_prometheus(name, unit, data)).collect()
}

/// The names and the labels that the [rules of OpenTelemetry][rules] give a metric in Prometheus.
///
/// [rules]: https://opentelemetry.io/docs/specs/otel/compatibility/prometheus_and_openmetrics/
fn in_prometheus(name: &str, unit: &str, data: &Data) -> Vec<(String, Labels)> {
    let mut name = name.replace('.', "_");
    match unit {
        "s" => name += "_seconds",
        annotation => assert!(annotation.starts_with('{'), "{annotation}: a unit has a suffix"),
    }
    let mut labels = Labels::new();
    for (label, value) in data.attributes() {
        labels.entry(label.replace('.', "_")).or_default().insert(value.clone());
    }
    let suffixes: &[&str] = match data.kind {
        "counter" => &["_total"],
        "histogram" => &["_bucket", "_count", "_sum"],
        _ => &[""],
    };
    let named = suffixes.iter().map(|suffix| {
        let mut labels = labels.clone();
        if *suffix == "_bucket" {
            labels.insert("le".to_owned(), BTreeSet::new());
        }
        (name.clone() + suffix, labels)
    });
    named.collect()
}

/// The names that a query uses. Promtool checks its syntax in CI.
struct Used {
    metrics: Vec<String>,
    /// The labels that are left: those that it groups by, or else those of its metrics.
    labels: BTreeSet<String>,
}

impl Used {
    /// Each name is a metric or a label of one of the metrics, and each label can have the values that are asked for.
    fn by(query: &str, known: &Known) -> Result<Self, String> {
        let unquoted: Vec<&str> = query.split('"').step_by(2).collect();
        let names: Vec<&str> = unquoted.iter().flat_map(|piece| names_in(piece)).collect();
        let metrics: Vec<_> = names.iter().copied().filter(|it| known.contains_key(*it)).collect();
        let labels = |label: &str| metrics.iter().filter_map(|it| known[*it].get(label)).collect();
        for name in names.iter().filter(|name| !known.contains_key(**name)) {
            let of: Vec<_> = labels(name);
            if of.is_empty() {
                return Err(format!("{name} is no metric, and no label of {metrics:?}"));
            }
        }
        for (before, values) in unquoted.iter().zip(query.split('"').skip(1).step_by(2)) {
            // A query may leave values out, and Grafana fills some in.
            let is_left_out = before.ends_with("!=") || before.ends_with("!~");
            let Some(label) = names_in(before).pop().filter(|_| !is_left_out) else { continue };
            if values.contains(['$', '.']) {
                continue;
            }
            let of: Vec<&BTreeSet<String>> = labels(label);
            for value in values.split('|').filter(|value| !value.is_empty()) {
                if !of.iter().any(|it| it.is_empty() || it.contains(value)) {
                    return Err(format!("{label} is never {value}"));
                }
            }
        }
        let groups = query.split("by (").skip(1).filter_map(|after| after.split(')').next());
        let grouped: BTreeSet<_> = groups.flat_map(names_in).map(str::to_owned).collect();
        let all = metrics.iter().flat_map(|metric| known[*metric].keys().cloned());
        let labels = if grouped.is_empty() { all.collect() } else { grouped };
        Ok(Self { metrics: metrics.into_iter().map(str::to_owned).collect(), labels })
    }

    /// The labels in a text, after `mark`, that are not left.
    fn missing<'a>(&self, mark: &str, text: &'a str) -> Vec<&'a str> {
        let shown = text.split(mark).skip(1).filter_map(|after| after.split(is_no_part).next());
        shown.filter(|label| !self.labels.contains(*label)).collect()
    }
}

/// The names of metrics and labels in a query, without its functions, words, numbers, ranges and variables.
fn names_in(query: &str) -> Vec<&str> {
    let mut names = Vec::new();
    for word in query.split(is_no_part) {
        let at = word.as_ptr() as usize - query.as_ptr() as usize;
        let after = query[at + word.len()..].trim_start();
        let is_name = word.starts_with(|char: char| char.is_ascii_alphabetic());
        let is_function = after.starts_with('(')
            || ["and", "count", "max", "offset", "sum", "unless"].contains(&word);
        if is_name && !is_function && !query[..at].ends_with('$') {
            names.push(word);
        }
    }
    names
}

fn is_no_part(char: char) -> bool {
    !char.is_ascii_alphanumeric() && char != '_'
}
