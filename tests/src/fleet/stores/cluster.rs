//! Three masters and three replicas; writes wait for the replicas.

use anyhow::Result;
use syncguard_test_services::redis::RedisCluster;

/// A cluster.
#[derive(Debug)]
pub struct Cluster {
    /// The servers: masters first, then their replicas in the same order, until a replica takes over.
    pub nodes: RedisCluster,
}

impl Cluster {
    pub(super) fn start() -> Result<Self> {
        Ok(Self { nodes: RedisCluster::start_with_replicas(3)? })
    }

    pub(super) fn url(&self) -> String {
        format!("{}&wait_replicas=1", self.nodes.url())
    }

    pub(super) fn leftovers(&self) -> Result<(u64, u64)> {
        let (mut live, mut open) = (0, 0);
        for node in self.nodes.nodes() {
            if node.cli(&["ROLE"])?.starts_with("master") {
                let names = node.cli(&["KEYS", "{syncguard:*"])?;
                live += names.lines().filter(|name| !name.contains("}:fence:")).count() as u64;
            }
            let clients = node.cli(&["CLIENT", "LIST", "TYPE", "normal"])?;
            // One of these connections is the query itself.
            open += clients.lines().count().saturating_sub(1) as u64;
        }
        Ok((live, open))
    }
}
