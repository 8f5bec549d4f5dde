//! A cluster, backends on it, and its records without the library.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use base64ct::{Base64, Encoding as _};
use serde_json::{Value, json};
use syncguard_etcd::contract::{AcquireRequest, Acquired};
use syncguard_etcd::{EtcdBackend, EtcdOptions, LockBackend as _};
use syncguard_test_services::etcd::EtcdCluster;

/// A cluster of one member that many tests share. It keeps its data, so prefixes must not clash.
pub(crate) fn shared() -> &'static EtcdCluster {
    static CLUSTER: OnceLock<EtcdCluster> = OnceLock::new();
    CLUSTER.get_or_init(|| EtcdCluster::start(1).expect("an etcd server"))
}

/// A prefix that nothing else in this process uses.
pub(crate) fn fresh() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    format!("test-{}", COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Options that are patient with a busy machine.
pub(crate) fn options() -> EtcdOptions {
    EtcdOptions::new()
        .with_request_timeout(Duration::from_secs(20))
        .with_operation_timeout(Duration::from_secs(40))
}

/// A backend that a member on this port serves.
pub(crate) async fn backend_at(port: u16, prefix: &str, options: EtcdOptions) -> EtcdBackend {
    let url = format!("etcd://127.0.0.1:{port}/{prefix}");
    EtcdBackend::connect_with(&url, options).await.expect("a backend")
}

/// A backend on the shared cluster.
pub(crate) async fn backend_with(prefix: &str, options: EtcdOptions) -> EtcdBackend {
    backend_at(shared().port(0), prefix, options).await
}

pub(crate) async fn backend(prefix: &str) -> EtcdBackend {
    backend_with(prefix, options()).await
}

pub(crate) fn request(key: &str, ttl_ms: u64) -> AcquireRequest {
    AcquireRequest::new(key, Duration::from_millis(ttl_ms)).expect("a request")
}

/// Takes a lock that must be free.
pub(crate) async fn take(backend: &EtcdBackend, key: &str, ttl_ms: u64) -> Acquired {
    let result = backend.acquire(request(key, ttl_ms)).await.expect("an answer");
    result.acquired().expect("a free lock")
}

/// The width of the bounds in which a backend knows the members' time, in milliseconds.
pub(crate) fn width(backend: &EtcdBackend) -> i64 {
    backend.clock_drift().map_or(i64::MAX, |drift| drift.highest - drift.lowest)
}

/// The records of a cluster, over HTTP.
#[derive(Clone, Copy)]
pub(crate) struct Raw<'c>(pub(crate) &'c EtcdCluster);

impl Raw<'_> {
    pub(crate) fn put(self, name: &str, value: &str) {
        self.put_bytes(name.as_bytes(), value.as_bytes());
    }

    pub(crate) fn put_bytes(self, name: &[u8], value: &[u8]) {
        let base64 = Base64::encode_string;
        let put = json!({ "key": base64(name), "value": base64(value) });
        self.0.post_as_root("kv/put", &put.to_string()).expect("a put");
    }

    pub(crate) fn get(self, name: &str) -> Option<String> {
        let records = self.records(&json!({ "key": encoded(name) }));
        records.into_iter().next().map(|(_, value)| value)
    }

    /// The names that begin so.
    pub(crate) fn names(self, start: &str) -> Vec<String> {
        let end = format!("{start}\u{10ffff}");
        let records = self.records(&json!({ "key": encoded(start), "range_end": encoded(&end) }));
        records.into_iter().map(|(name, _)| name).collect()
    }

    fn records(self, range: &Value) -> Vec<(String, String)> {
        let answer = self.0.post_as_root("kv/range", &range.to_string()).expect("a read");
        let answer: Value = serde_json::from_str(&answer).expect("JSON");
        let Some(kvs) = answer["kvs"].as_array() else { return Vec::new() };
        kvs.iter().map(|kv| (decoded(&kv["key"]), decoded(&kv["value"]))).collect()
    }
}

fn encoded(text: &str) -> String {
    Base64::encode_string(text.as_bytes())
}

fn decoded(text: &Value) -> String {
    let bytes = Base64::decode_vec(text.as_str().unwrap_or_default()).expect("base64");
    String::from_utf8(bytes).expect("UTF-8")
}
