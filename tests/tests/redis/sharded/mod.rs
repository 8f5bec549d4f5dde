//! The sharded layout: an untagged prefix on a cluster.

mod access;
mod inventory;
mod moved;
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

/// The sum of a figure over all nodes, from lines of `INFO` like `name:figure` or `name=figure,`.
fn sum(cluster: &RedisCluster, section: &str, name: &str) -> Result<u64> {
    let figure = |info: &str| {
        let rest = info.lines().find_map(|line| line.strip_prefix(name))?;
        rest.trim_end().split(',').next()?.parse::<u64>().ok()
    };
    let nodes = cluster.nodes().iter();
    nodes.map(|node| Ok(figure(&node.cli(&["INFO", section])?).unwrap_or(0))).sum()
}

/// The number of scripts since the last reset.
fn scripts(cluster: &RedisCluster) -> Result<u64> {
    let by_hash = sum(cluster, "commandstats", "cmdstat_evalsha:calls=")?;
    let in_full = sum(cluster, "commandstats", "cmdstat_eval:calls=")?;
    Ok(by_hash + in_full)
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
