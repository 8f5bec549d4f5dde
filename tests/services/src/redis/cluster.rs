//! A cluster of masters.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};

use super::{RedisBuilder, RedisServer};
use crate::wait;

/// Redis servers that share the slots. With replicas, each master has one, which takes over when the master has been
/// silent for two seconds.
#[derive(Debug)]
pub struct RedisCluster {
    nodes: Vec<RedisServer>,
}

impl RedisCluster {
    /// Starts `masters` servers (three or more) and waits until each of them reports a healthy cluster.
    pub fn start(masters: u16) -> Result<Self> {
        Self::start_nodes(masters, vec![RedisServer::builder(); usize::from(masters)])
    }

    /// Starts `masters` servers (three or more), and a replica for each of them.
    ///
    /// The first half of [`nodes`](Self::nodes) are the masters, the other half their replicas, in the same
    /// order.
    pub fn start_with_replicas(masters: u16) -> Result<Self> {
        let nodes = vec![RedisServer::builder(); 2 * usize::from(masters)];
        let cluster = Self::start_nodes(masters, nodes)?;
        let (masters, replicas) = cluster.nodes.split_at(usize::from(masters));
        for (master, replica) in masters.iter().zip(replicas) {
            let id = id(master)?;
            // Fails until the replica has heard of the master.
            wait::until("a known master", TIMEOUT, || {
                Ok(replica.cli(&["CLUSTER", "REPLICATE", &id]).is_ok())
            })?;
        }
        for replica in replicas {
            replica.wait_for_info("replication", "master_link_status:up")?;
        }
        for master in masters {
            // The master sends no writes before the replica has acknowledged one.
            master.cli(&["FLUSHALL"])?;
            wait::until("a replica that follows", TIMEOUT, || {
                let info = master.cli(&["INFO", "replication"])?;
                Ok(info.contains("state=online") && !info.contains(",offset=0,"))
            })?;
        }
        cluster.wait_until_ok()?;
        Ok(cluster)
    }

    /// Starts these nodes. The first `masters` (three or more) share the slots, and the others have none.
    pub fn start_nodes(masters: u16, nodes: Vec<RedisBuilder>) -> Result<Self> {
        ensure!(masters >= 3, "a Redis cluster has three masters or more");
        let nodes = nodes.into_iter().map(|node| node.cluster(true).start());
        let nodes = nodes.collect::<Result<Vec<_>>>()?;
        let cluster = Self { nodes };
        cluster.share_slots(masters)?;
        cluster.introduce()?;
        cluster.wait_until_ok()?;
        Ok(cluster)
    }

    /// Moves a slot with all its keys, as `redis-cli --cluster reshard` does. No server is stopped meanwhile.
    pub fn move_slot(&self, slot: u16, from: &RedisServer, to: &RedisServer) -> Result<()> {
        let slot = slot.to_string();
        self.begin_move(&slot, from, to)?;
        let port = to.port().to_string();
        // On a busy machine a node may believe for a moment that the cluster is down, and refuse the keys.
        wait::until("the keys to move", TIMEOUT, || {
            let names = from.cli(&["CLUSTER", "GETKEYSINSLOT", &slot, "100"])?;
            let names: Vec<&str> = names.lines().filter(|name| !name.is_empty()).collect();
            if names.is_empty() {
                return Ok(true);
            }
            let mut migrate = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            migrate.extend(names);
            from.cli(&migrate)?;
            Ok(false)
        })?;
        // The new owner comes first, so that the slot always has an owner.
        let id = id(to)?;
        to.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id])?;
        from.cli(&["CLUSTER", "SETSLOT", &slot, "NODE", &id])?;
        Ok(())
    }

    /// Moves these slots as one, as Valkey 9 can.
    pub fn move_at_once(
        &self,
        slots: (u16, u16),
        from: &RedisServer,
        to: &RedisServer,
    ) -> Result<()> {
        let (first, last) = (slots.0.to_string(), slots.1.to_string());
        from.cli(&["CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", &first, &last, "NODE", &id(to)?])?;
        wait::until("the slots to move", TIMEOUT, || {
            let moves = from.cli(&["CLUSTER", "GETSLOTMIGRATIONS"])?;
            ensure!(!moves.contains("failed"), "{moves}");
            Ok(moves.contains("success"))
        })
    }

    /// Waits until all other running nodes see this node as a master.
    pub fn wait_until_master(&self, port: u16) -> Result<()> {
        let address = format!("127.0.0.1:{port}@");
        for node in self.nodes.iter().filter(|node| node.is_awake()) {
            wait::until("a new master", TIMEOUT, || {
                let nodes = node.cli(&["CLUSTER", "NODES"])?;
                let info = node.cli(&["CLUSTER", "INFO"])?;
                let is_master = |line: &str| {
                    let mut fields = line.split(' ');
                    fields.nth(1).is_some_and(|at| at.starts_with(&address))
                        && fields.next().is_some_and(|flags| flags.contains("master"))
                        && line.contains(" connected ")
                };
                Ok(nodes.lines().any(is_master) && info.contains("cluster_state:ok"))
            })?;
        }
        Ok(())
    }

    /// `redis-cluster://` with every node, in fred's form.
    #[must_use]
    pub fn url(&self) -> String {
        Self::url_of(self.nodes.iter().map(RedisServer::port))
    }

    /// The same for nodes on these ports of 127.0.0.1.
    pub fn url_of(ports: impl Iterator<Item = u16>) -> String {
        let nodes: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
        format!("redis-cluster://{}", nodes.join("&node=").replacen('&', "?", 1))
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

    /// Waits until every node sees every slot served, as after a restart of a node.
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
    pub fn owner_and_other(&self, name: &str) -> Result<(&RedisServer, &RedisServer, String)> {
        let slot = self.nodes[0].cli(&["CLUSTER", "KEYSLOT", name])?;
        let owns = |node: &&RedisServer| node.cli(&["GET", name]).is_ok();
        let owner = self.nodes.iter().find(owns).context("an owner")?;
        let other = self.nodes.iter().find(|node| !owns(node)).context("another")?;
        Ok((owner, other, slot))
    }

    /// Starts the move of a slot from one node to another: the first node redirects requests for missing keys to the
    /// second.
    pub fn begin_move(&self, slot: &str, from: &RedisServer, to: &RedisServer) -> Result<()> {
        to.cli(&["CLUSTER", "SETSLOT", slot, "IMPORTING", &id(from)?])?;
        from.cli(&["CLUSTER", "SETSLOT", slot, "MIGRATING", &id(to)?])?;
        Ok(())
    }

    /// Gives a slot to a node, after all its keys have been moved.
    pub fn end_move(&self, slot: &str, to: &RedisServer) -> Result<()> {
        let id = id(to)?;
        for node in &self.nodes {
            node.cli(&["CLUSTER", "SETSLOT", slot, "NODE", &id])?;
        }
        Ok(())
    }

    fn share_slots(&self, masters: u16) -> Result<()> {
        for (index, node) in (0_u16..).zip(&self.nodes) {
            // Two masters may get the same epoch at their start, and need seconds to resolve that.
            node.cli(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            if index >= masters {
                continue;
            }
            let edge = |part: u16| u32::from(part) * SLOTS / u32::from(masters);
            let (first, last) = (edge(index), edge(index + 1) - 1);
            // Redis 6.2 takes no ranges.
            let slots: Vec<_> = (first..=last).map(|slot| slot.to_string()).collect();
            let words = ["CLUSTER", "ADDSLOTS"].into_iter();
            node.cli(&words.chain(slots.iter().map(String::as_str)).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Introduces all nodes to each other.
    fn introduce(&self) -> Result<()> {
        for a in &self.nodes {
            let known = a.cli(&["CLUSTER", "NODES"])?;
            // `ID ADDRESS:PORT@PORT myself,…`. The second port is that for nodes, which is another one with TLS.
            let at = known.split(' ').nth(1).and_then(|address| address.split_once('@'));
            let (_, port) = at.context("a node knows itself")?;
            let port = port.split(',').next().context("a port")?;
            for b in self.nodes.iter().filter(|b| b.port() != a.port()) {
                b.cli(&["CLUSTER", "MEET", "127.0.0.1", &a.port().to_string(), port])?;
            }
        }
        Ok(())
    }
}

/// The id of a node.
fn id(node: &RedisServer) -> Result<String> {
    node.cli(&["CLUSTER", "MYID"])
}

const SLOTS: u32 = 16_384;
const TIMEOUT: Duration = Duration::from_secs(30);
