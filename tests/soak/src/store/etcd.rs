//! A cluster of etcd.

use anyhow::{Context as _, Result};
use serde_json::{Value as Json, from_str};
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
