//! A cluster of masters.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::RedisServer;
use crate::wait;

/// Redis servers that share the slots between them.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts `masters` servers (three or more) and waits until each finds the cluster in order.
    ///
    /// # Errors
    ///
    /// When the servers do not start or do not find each other.
    pub fn start(masters: u16) -> Result<Self> {
        ensure!(masters >= 3, "a Redis cluster has three masters or more");
        let nodes = (0..masters)
            .map(|_| RedisServer::builder().cluster(true).start())
            .collect::<Result<Vec<_>>>()?;
        let cluster = Self { nodes };
        cluster.share_slots(masters)?;
        cluster.introduce()?;
        cluster.wait_until_ok()?;
        Ok(cluster)
    }

    /// `redis-cluster://` with every node, as fred reads it.
    #[must_use]
    pub fn url(&self) -> String {
        let nodes: Vec<String> =
            (self.nodes.iter()).map(|node| format!("127.0.0.1:{}", node.port())).collect();
        match nodes.split_first() {
            Some((first, rest)) if !rest.is_empty() => {
                format!("redis-cluster://{first}?node={}", rest.join("&node="))
            }
            _ => format!("redis-cluster://{}", nodes.concat()),
        }
    }

    /// The servers.
    #[must_use]
    pub fn nodes(&self) -> &[RedisServer] {
        &self.nodes
    }

    /// The servers, to kill, pause and restart them.
    #[must_use]
    pub fn nodes_mut(&mut self) -> &mut [RedisServer] {
        &mut self.nodes
    }

    /// Waits until every node finds every slot served, as after a restart of one of them.
    ///
    /// # Errors
    ///
    /// When that takes longer than 30 seconds, or a node is down.
    pub fn wait_until_ok(&self) -> Result<()> {
        for node in &self.nodes {
            wait::until("cluster_state:ok", TIMEOUT, || {
                let info = node.cli(&["CLUSTER", "INFO"])?;
                Ok(info.contains("cluster_state:ok")
                    && info.contains(&format!("cluster_known_nodes:{}", self.nodes.len())))
            })
            .with_context(|| format!("Redis cluster node on port {}", node.port()))?;
        }
        Ok(())
    }

    /// The node that serves a name, another one, and the slot of the name.
    ///
    /// # Errors
    ///
    /// When a node is down.
    pub fn owner_and_other(&self, name: &str) -> Result<(&RedisServer, &RedisServer, String)> {
        let slot = self.nodes[0].cli(&["CLUSTER", "KEYSLOT", name])?;
        let owns = |node: &&RedisServer| node.cli(&["GET", name]).is_ok();
        let owner = self.nodes.iter().find(owns).context("an owner")?;
        let other = self.nodes.iter().find(|node| !owns(node)).context("another")?;
        Ok((owner, other, slot))
    }

    /// Has a slot on its way from one node to another: names that are not here are asked for there.
    ///
    /// # Errors
    ///
    /// When one of the nodes refuses.
    pub fn begin_move(&self, slot: &str, from: &RedisServer, to: &RedisServer) -> Result<()> {
        to.cli(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &id(from)?])?;
        from.cli(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &id(to)?])?;
        Ok(())
    }

    /// Gives a slot to a node, once nothing is left of it on the one it was on.
    ///
    /// # Errors
    ///
    /// When one of the nodes refuses.
    pub fn end_move(&self, slot: &str, to: &RedisServer) -> Result<()> {
        let id = id(to)?;
        for node in &self.nodes {
            node.cli(&["CLUSTER", "SETSLOT", slot, "NODE", &id])?;
        }
        Ok(())
    }

    fn share_slots(&self, masters: u16) -> Result<()> {
        for (index, node) in (0_u16..).zip(&self.nodes) {
            // Two masters may be given the same epoch at their start, and sort that out by talking
            // for seconds.
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            let edge = |part: u16| u32::from(part) * SLOTS / u32::from(masters);
            let (first, last) = (edge(index), edge(index + 1) - 1);
            node.cli(&["CLUSTER", "ADDSLOTSRANGE", &first.to_string(), &last.to_string()])?;
        }
        Ok(())
    }

    fn introduce(&self) -> Result<()> {
        for a in &self.nodes {
            for b in &self.nodes {
                if a.port() == b.port() {
                    continue;
                }
                let bus = b.cli(&["CONFIG", "GET", "cluster-port"])?;
                let bus = bus.lines().last().context("no cluster-port")?;
                let port = b.port().to_string();
                a.cli(&["CLUSTER", "MEET", "127.0.0.1", &port, bus])?;
            }
        }
        Ok(())
    }
}

/// What a node calls itself.
fn id(node: &RedisServer) -> Result<String> {
    node.cli(&["CLUSTER", "MYID"])
}

const SLOTS: u32 = 16_384;
const TIMEOUT: Duration = Duration::from_secs(30);
