//! The metrics, as an exporter gets them.

#![cfg(feature = "opentelemetry")]

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::common::metrics::{Attributes, Exported, sorted};
use crate::common::{KEY, Store, TTL, take};
use opentelemetry_sdk::metrics::data::{AggregatedMetrics, MetricData, ScopeMetrics};
use syncguard_conformance::{LogLine, LogLines};
use syncguard_memory::authoring::recipes::as_recipe;
use syncguard_memory::contract::{IsLockedRequest, ReleaseRequest};
use syncguard_memory::{
    AcquisitionOptions, AutoExtend, Backoff, ErrorCode, Jitter, LockBackend, LockConfig, LockGuard,
    acquire, lock,
};
use syncguard_telemetry::opentelemetry::global;
use syncguard_telemetry::{Telemetry, TelemetryOptions, with_telemetry};
use tokio::time::sleep;
use tracing::Level;

const SECOND: Duration = Duration::from_secs(1);

#[tokio::test(start_paused = true)]
async fn metrics_add_up() {
    let exported = Exported::new();
    let store = Store::slow(Duration::from_millis(20));
    let options = exported.options();
    let backend = with_telemetry(store.clone(), options);
    let _lost = wait_hold_and_lose(&store, &backend).await;
    let metrics = exported.metrics(&backend).await;

    let wait = metrics.histogram("syncguard.lock.wait_time", "s");
    let granted = [("syncguard.backend", "memory"), ("syncguard.result", "ok")];
    // Three attempts of 20 ms and two pauses, then one attempt.
    assert_eq!(wait, [(sorted(&granted), 2, 2.08)]);
    let attempts = metrics.histogram("syncguard.lock.attempts", "{attempt}");
    assert_eq!(attempts, [(sorted(&granted), 2, 4.0)]);
    // Nobody of the same process stood before it.
    let queued = metrics.histogram("syncguard.lock.queue_time", "s");
    assert_eq!(queued, [(sorted(&granted), 2, 0.0)]);

    let lost = [("syncguard.backend", "memory"), ("syncguard.loss", "expired")];
    let failed = [lost[0], lost[1], ("syncguard.result", "fail")];
    let hold = metrics.histogram("syncguard.lock.hold_time", "s");
    // The TTL counts from before the request, the hold from after the answer.
    assert_eq!(hold, [(sorted(&failed), 1, 29.98), (sorted(&granted), 1, 3.0)]);
    let losses = metrics.counter("syncguard.lock.lost", "{lock}");
    assert_eq!(above_zero(&losses), [(sorted(&lost), 1)]);
    let contentions = metrics.counter("syncguard.lock.contentions", "{contention}");
    assert_eq!(contentions, [(sorted(&granted[..1]), 2)]);

    let operations = metrics.histogram("syncguard.operation.duration", "s");
    let count = |operation: &str, more: &[(&str, &str)]| {
        let mut attributes = vec![granted[0], ("syncguard.operation", operation)];
        attributes.extend(more);
        let wanted = sorted(&attributes);
        operations.iter().find(|(found, ..)| *found == wanted).map_or(0, |(_, count, _)| *count)
    };
    let (ok, fail) = (("syncguard.result", "ok"), ("syncguard.result", "fail"));
    assert_eq!(count("acquire", &[ok]), 2);
    assert_eq!(count("acquire", &[fail, ("syncguard.reason", "locked")]), 2);
    assert_eq!(count("release", &[ok]), 1);
    let error = ("error.type", "ServiceUnavailable");
    assert_eq!(count("isLocked", &[fail, error]), 1);
    assert!(count("extend", &[fail, error]) > 5, "{operations:?}");
    let all: u64 = operations.iter().map(|(_, count, _)| count).sum();
    assert_eq!(all, 6 + count("extend", &[fail, error]), "{operations:?}");
    let errors = metrics.counter("syncguard.operation.errors", "{error}");
    let failed = count("extend", &[fail, error]) + count("isLocked", &[fail, error]);
    assert_eq!(above_zero(&errors), [(sorted(&[granted[0], error]), failed)]);
}

fn above_zero(points: &[(Attributes, u64)]) -> Vec<(Attributes, u64)> {
    points.iter().filter(|(_, value)| *value > 0).cloned().collect()
}

/// An alert for an increase sees the first failure only if the counter was there before it.
#[tokio::test(start_paused = true)]
async fn counters_begin_with_zero() {
    let exported = Exported::new();
    let options = exported.options();
    let _backend = with_telemetry(Store::default(), options);
    let metrics = exported.now();
    let backend = ("syncguard.backend", "memory");
    let zeros = |name: &'static str, values: &[&str]| -> Vec<(Attributes, u64)> {
        values.iter().map(|value| (sorted(&[backend, (name, *value)]), 0)).collect()
    };
    let codes = [
        "AuthFailed",
        "Internal",
        "InvalidArgument",
        "NetworkTimeout",
        "RateLimited",
        "ServiceUnavailable",
    ];
    let errors = metrics.counter("syncguard.operation.errors", "{error}");
    assert_eq!(errors, zeros("error.type", &codes));
    let losses = ["expired", "max-hold", "not-held", "record-lost", "renewer-panicked"];
    let lost = metrics.counter("syncguard.lock.lost", "{lock}");
    assert_eq!(lost, zeros("syncguard.loss", &losses));
    let of_backend = sorted(&[backend]);
    let contentions = metrics.counter("syncguard.lock.contentions", "{contention}");
    assert_eq!(contentions, [(of_backend.clone(), 0)]);
    for (name, unit) in [("syncguard.lock.held", "{lock}"), ("syncguard.lock.waiting", "{caller}")]
    {
        assert_eq!(metrics.now(name, unit), [(of_backend.clone(), 0)], "{name}");
    }
    // This counter is of the whole process, so other tests may have dropped events.
    assert_eq!(metrics.counter("syncguard.telemetry.dropped_events", "{event}").len(), 1);
}

/// The losses of a family or a recipe have their series from the first wait, before anything can be lost.
#[tokio::test(start_paused = true)]
async fn losses_of_a_new_family_or_recipe_begin_with_zero() {
    let exported = Exported::new();
    let options = exported.options().with_key_family(|_| "payment");
    let backend = with_telemetry(Store::default(), options);
    let losses = async || {
        let metrics = exported.metrics(&backend).await;
        let lost = metrics.counter("syncguard.lock.lost", "{lock}");
        assert!(lost.iter().all(|(_, value)| *value == 0), "{lost:?}");
        let of_kind = |(attributes, _): &(Attributes, u64)| {
            let mut attributes = attributes.clone();
            attributes.retain(|(name, _)| name != "syncguard.loss" && name != "syncguard.backend");
            attributes
        };
        let mut kinds: Vec<_> = lost.iter().map(of_kind).collect();
        assert_eq!(kinds.len() % 5, 0, "{lost:?}");
        kinds.sort();
        kinds.dedup();
        kinds
    };
    let other = sorted(&[("syncguard.key_family", "other")]);
    let payment = sorted(&[("syncguard.key_family", "payment")]);
    let leader = sorted(&[("syncguard.key_family", "payment"), ("syncguard.recipe", "election")]);
    assert_eq!(losses().await, std::slice::from_ref(&other));
    for _ in 0..2 {
        lock(&backend, KEY, async |_| ()).await.unwrap();
    }
    assert_eq!(losses().await, [other.clone(), payment.clone()]);
    lock(&backend, as_recipe(LockConfig::new(KEY), "election"), async |_| ()).await.unwrap();
    assert_eq!(losses().await, [other, payment, leader]);
}

/// An operation that its caller gave up has not failed.
#[tokio::test(start_paused = true)]
async fn an_operation_that_was_given_up_is_no_error() {
    let exported = Exported::new();
    let store = Store::default();
    let options = exported.options();
    let backend = with_telemetry(store.clone(), options);
    for code in [ErrorCode::Aborted, ErrorCode::Internal] {
        store.fail(code, 1);
        backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap_err();
    }
    let metrics = exported.metrics(&backend).await;
    let errors = metrics.counter("syncguard.operation.errors", "{error}");
    let internal = sorted(&[("syncguard.backend", "memory"), ("error.type", "Internal")]);
    assert_eq!(above_zero(&errors), [(internal, 1)]);
}

#[tokio::test(start_paused = true)]
async fn holds_of_50_and_of_100_ms_are_told_apart() {
    let exported = Exported::new();
    let options = exported.options();
    let backend = with_telemetry(Store::default(), options);
    let lengths = [50, 75, 100, 250, 400].map(Duration::from_millis);
    for length in lengths {
        lock(&backend, KEY, async |_| sleep(length).await).await.unwrap();
    }
    exported.metrics(&backend).await;
    let collected = exported.exporter.get_finished_metrics().unwrap();
    let mut metrics = collected[0].scope_metrics().flat_map(ScopeMetrics::metrics);
    let hold = metrics.find(|metric| metric.name() == "syncguard.lock.hold_time").unwrap();
    let AggregatedMetrics::F64(MetricData::Histogram(hold)) = hold.data() else {
        panic!("{hold:?}")
    };
    let point = hold.data_points().next().unwrap();
    let buckets: Vec<_> = point.bounds().zip(point.bucket_counts()).collect();
    let counted: Vec<_> =
        buckets.iter().filter(|(_, count)| *count == 1).map(|(it, _)| *it).collect();
    assert_eq!(counted, [0.05, 0.075, 0.1, 0.25, 0.5]);
}

/// Gives values to every instrument. At the end the guard's lock is lost and the store fails.
async fn wait_hold_and_lose(
    store: &Store,
    backend: &Telemetry<Store>,
) -> LockGuard<Telemetry<Store>> {
    // A waiter gets the lock at its third attempt.
    let other = take(&store.inner, KEY).await.lock_id;
    let patient = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_jitter(Jitter::None)
        .with_retry_delay(SECOND);
    let (locked, ()) = tokio::join!(
        lock(backend, LockConfig::new(KEY).with_acquisition(patient), async |_| {
            sleep(3 * SECOND).await;
        }),
        async {
            sleep(Duration::from_millis(1500)).await;
            let _ = store.inner.release(ReleaseRequest::new(other)).await.unwrap();
        },
    );
    locked.unwrap();
    // A lock that is lost after some failed renewals.
    let kept = LockConfig::new(KEY).with_ttl(TTL).with_auto_extend(AutoExtend::new());
    let guard = acquire(backend, kept).await.unwrap();
    store.fail(ErrorCode::ServiceUnavailable, 1000);
    guard.lost().await;
    backend.is_locked(IsLockedRequest::new(KEY).unwrap()).await.unwrap_err();
    guard
}

/// Also if the options include raw values in events.
#[tokio::test(start_paused = true)]
async fn no_key_and_no_lock_id_is_in_any_metric() {
    const ATTRIBUTES: [&str; 6] = [
        "error.type",
        "syncguard.backend",
        "syncguard.loss",
        "syncguard.operation",
        "syncguard.reason",
        "syncguard.result",
    ];
    let exported = Exported::new();
    let store = Store::default();
    let events = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&events);
    let options = exported
        .options()
        .with_include_raw(|_| true)
        .with_on_event(move |event| heard.lock().unwrap().push(event.clone()));
    let backend = with_telemetry(store.clone(), options);
    let _lost = wait_hold_and_lose(&store, &backend).await;
    let metrics = exported.metrics(&backend).await;

    let events = std::mem::take(&mut *events.lock().unwrap());
    let mut secrets = vec![KEY.to_owned()];
    secrets.extend(events.iter().filter_map(|event| Some(event.key_hash?.to_string())));
    secrets.extend(events.iter().filter_map(|event| Some(event.lock_id?.expose().to_owned())));
    secrets.extend(events.iter().filter_map(|event| Some(event.lock_id_hash?.to_string())));
    assert!(events.iter().any(|event| event.key.as_ref().is_some_and(|key| key.expose() == KEY)));
    assert_eq!(metrics.0.len(), 12, "each instrument");
    for (name, _, data) in &metrics.0 {
        for (attribute, value) in data.attributes() {
            assert!(ATTRIBUTES.contains(&attribute.as_str()), "{name}: {attribute}");
            assert!(!secrets.iter().any(|secret| value.contains(secret)), "{name}: {attribute}");
        }
    }
}

/// The gauges of waiters and holders, by family, also when events are dropped.
#[tokio::test(start_paused = true)]
async fn who_waits_and_who_holds_right_now() {
    let exported = Exported::new();
    let options = exported
        .options()
        .with_key_family(|key| key.expose().split(':').next().unwrap_or_default().to_owned())
        .with_queue_capacity(1);
    let backend = with_telemetry(Store::default(), options);
    let now = |name: &str, unit: &str| exported.now().now(name, unit);
    let families = |payment: u64, job: u64| {
        let of =
            |family| sorted(&[("syncguard.backend", "memory"), ("syncguard.key_family", family)]);
        vec![(of("job"), job), (of("other"), 0), (of("payment"), payment)]
    };

    let payments = [acquire(&backend, "payment:1").await, acquire(&backend, "payment:2").await];
    let job = acquire(&backend, "job:1").await.unwrap();
    let waiting = tokio::spawn({
        let backend = backend.clone();
        async move { acquire(&backend, "payment:1").await.map(drop) }
    });
    sleep(Duration::from_millis(10)).await;
    assert_eq!(now("syncguard.lock.held", "{lock}"), families(2, 1));
    assert_eq!(now("syncguard.lock.waiting", "{caller}"), families(1, 0));

    // A waiter gives up, a lock is given back, and a lock is lost.
    waiting.abort();
    waiting.await.unwrap_err();
    drop(job);
    let [lost, kept] = payments;
    let stolen = ReleaseRequest::new(lost.as_ref().unwrap().lock_id());
    assert!(backend.inner().release(stolen).await.unwrap().is_released());
    assert!(!lost.unwrap().extend(TTL).await.unwrap().is_extended());
    assert_eq!(now("syncguard.lock.held", "{lock}"), families(1, 0));
    assert_eq!(now("syncguard.lock.waiting", "{caller}"), families(0, 0));
    drop(kept);
    assert_eq!(now("syncguard.lock.held", "{lock}"), families(0, 0));
}

/// A holder that hangs is seen, though no hold has ended.
#[tokio::test(start_paused = true)]
async fn the_oldest_hold_of_a_family_has_its_age() {
    let exported = Exported::new();
    let options = exported.options().with_key_family(|_| "oldest-hold");
    // Two backends of one process have one series.
    let backends = [options, exported.options().with_key_family(|_| "oldest-hold")]
        .map(|options| with_telemetry(Store::default(), options));
    let age = || {
        let family = ("syncguard.key_family", "oldest-hold");
        exported.now().gauge("syncguard.lock.oldest_hold", "s", family)
    };
    let old = acquire(&backends[0], "1").await.unwrap();
    let began = Instant::now();
    while age() == 0.0 {}
    let young = [acquire(&backends[0], "2").await, acquire(&backends[1], "3").await];
    let (shown, most) = (age(), began.elapsed().as_secs_f64() + 1.0);
    assert!(shown > 0.0 && shown < most, "{shown} of {most}");
    old.release().await.unwrap();
    assert!(age() < age());
    for guard in young {
        guard.unwrap().release().await.unwrap();
    }
    assert_eq!(age().to_bits(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_family_of_a_key_is_on_everything_that_knows_the_key() {
    let exported = Exported::new();
    let options = exported.options().with_key_family(|key| {
        assert!(key.expose() == KEY, "as the test wants it");
        "payment"
    });
    let backend = with_telemetry(Store::default(), options);
    for key in [KEY, "one for which the function panics"] {
        lock(&backend, key, async |_| ()).await.unwrap();
    }
    let metrics = exported.metrics(&backend).await;
    for name in ["syncguard.lock.wait_time", "syncguard.lock.hold_time"] {
        let found = metrics.histogram(name, "s");
        let families: Vec<_> = found.iter().map(|(attributes, ..)| family_in(attributes)).collect();
        assert_eq!(families, [Some("other"), Some("payment")], "{name}");
    }
    for (attributes, ..) in metrics.histogram("syncguard.operation.duration", "s") {
        let is_acquire = attributes.contains(&("syncguard.operation".into(), "acquire".into()));
        assert_eq!(family_in(&attributes).is_some(), is_acquire, "{attributes:?}");
    }
}

fn family_in(attributes: &Attributes) -> Option<&str> {
    let family = attributes.iter().find(|(name, _)| name == "syncguard.key_family");
    family.map(|(_, family)| family.as_str())
}

/// A meter that was made before its provider keeps nothing. The warning is logged once, not once for each backend.
#[test]
fn a_meter_of_a_provider_that_nobody_set_is_noticed() {
    let (log, _subscriber) = LogLines::collect();
    let _options = Exported::new().options();
    for _ in 0..3 {
        let meter = global::meter("syncguard");
        let _options = TelemetryOptions::new().with_opentelemetry(&meter);
    }
    let lines = log.take();
    let is_ours =
        |line: &&LogLine| line.level == Level::WARN && line.target.starts_with("syncguard");
    assert_eq!(lines.iter().filter(is_ours).count(), 1, "{lines:?}");
}
