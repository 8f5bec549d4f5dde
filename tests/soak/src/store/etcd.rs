//! A cluster of etcd.

use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use base64ct::{Base64, Encoding as _};
use serde_json::{Value as Json, from_slice, from_str};
use syncguard_test_services::etcd::EtcdCluster;

/// A quota that a run can fill.
const QUOTA: &str = "--quota-backend-bytes=48000000";

pub(super) fn start() -> Result<EtcdCluster> {
    EtcdCluster::builder().flag(QUOTA).start(3)
}

pub(super) fn version(cluster: &EtcdCluster) -> Result<String> {
    let status: Json = from_str(&cluster.post(0, "maintenance/status", "{}")?)?;
    Ok(format!("etcd {}", status["version"].as_str().context("no version")?))
}

/// The number of live locks.
pub(super) fn live(cluster: &EtcdCluster) -> Result<u64> {
    let [from, to] =
        ["syncguard/l/", "syncguard/l0"].map(|name| Base64::encode_string(name.as_bytes()));
    let range = format!(r#"{{"key":"{from}","range_end":"{to}"}}"#);
    let found: Json = from_str(&cluster.post(0, "kv/range", &range)?)?;
    let now = u64::try_from(SystemTime::now().duration_since(UNIX_EPOCH)?.as_millis())?;
    let is_live = |kv: &&Json| {
        let value = kv["value"].as_str().and_then(|value| Base64::decode_vec(value).ok());
        let lock = value.and_then(|value| from_slice::<Json>(&value).ok());
        let expiry = lock.and_then(|lock| lock["expiresAtMs"].as_u64());
        expiry.is_none_or(|expiry| expiry + 1000 > now)
    };
    Ok(found["kvs"].as_array().map_or(0, |kvs| kvs.iter().filter(is_live).count()) as u64)
}
