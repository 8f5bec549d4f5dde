//! The sharded layout: an untagged prefix on a cluster.

mod access;
mod inventory;
mod nodes;
mod operations;

use std::time::Duration;

use anyhow::Result;
use syncguard_redis::{RedisBackend, RedisOptions};
use syncguard_test_services::proxy::FaultProxy;
use syncguard_test_services::redis::RedisCluster;
use syncguard_test_services::wait;

pub(crate) const PREFIX: &str = "app";

pub(crate) async fn connect(cluster: &RedisCluster) -> Result<RedisBackend> {
    connect_with(cluster, RedisOptions::new()).await
}

pub(crate) async fn connect_with(
    cluster: &RedisCluster,
    options: RedisOptions,
) -> Result<RedisBackend> {
    Ok(RedisBackend::connect_with(&cluster.url(), options.with_key_prefix(PREFIX)).await?)
}

/// The number of scripts since the last reset, by hash and in full.
fn scripts(cluster: &RedisCluster) -> Result<u64> {
    let calls = |line: &str| {
        let mut names = ["cmdstat_evalsha:calls=", "cmdstat_eval:calls="].iter();
        names.find_map(|name| line.strip_prefix(name))?.split(',').next()?.parse::<u64>().ok()
    };
    let stats = cluster.nodes().iter().map(|node| node.cli(&["INFO", "commandstats"]));
    stats.map(|stats| Ok(stats?.lines().filter_map(calls).sum::<u64>())).sum()
}

fn reset(cluster: &RedisCluster) -> Result<()> {
    for node in cluster.nodes() {
        node.cli(&["CONFIG", "RESETSTAT"])?;
    }
    Ok(())
}

/// A proxy for each node, which can be broken. Clients are told the proxies' ports instead of the nodes' own.
fn proxies(cluster: &RedisCluster) -> Result<Vec<FaultProxy>> {
    let proxies = cluster
        .nodes()
        .iter()
        .map(|node| FaultProxy::start(node.port()))
        .collect::<Result<Vec<_>>>()?;
    for (node, proxy) in cluster.nodes().iter().zip(&proxies) {
        node.cli(&["CONFIG", "SET", "cluster-announce-port", &proxy.port().to_string()])?;
    }
    // Waits until all nodes know all ports.
    for node in cluster.nodes() {
        wait::until("announced ports", Duration::from_secs(30), || {
            let nodes = node.cli(&["CLUSTER", "NODES"])?;
            let is_known = |proxy: &FaultProxy| nodes.contains(&format!(":{}@", proxy.port()));
            Ok(proxies.iter().all(is_known))
        })?;
    }
    Ok(proxies)
}

/// `redis-cluster://` through these proxies.
fn url_of(proxies: &[FaultProxy]) -> String {
    RedisCluster::url_of(proxies.iter().map(FaultProxy::port))
}
