//! Clusters of Redis and Valkey whose slots move to a newer node.

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_test_services::fetch::programs;
use syncguard_test_services::redis::{RedisCluster, RedisServer};

use super::load::Load;

/// The slots of locks move one by one, by `CLUSTER SETSLOT` and `MIGRATE`.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_move_one_by_one_to_a_newer_node() -> Result<()> {
    let old = programs("redis=7.0.15")?;
    let nodes = [old.clone(), old.clone(), old, programs("redis=8.2.3")?];
    let nodes = nodes.map(|programs| RedisServer::builder().programs(programs));
    let cluster = RedisCluster::start_nodes(3, nodes.into())?;
    let load = Load::start(&cluster.url()).await?;
    let newer = cluster.nodes().last().context("a node")?;
    for shard in 0..64 {
        let (owner, _, slot) = cluster.owner_and_other(&format!("{{syncguard:{shard:02}}}"))?;
        cluster.move_slot(slot.parse()?, owner, newer)?;
    }
    load.end(Duration::from_secs(30)).await
}

/// All slots of each node move as one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ranges_of_slots_move_as_one() -> Result<()> {
    let valkey = programs("valkey=9.1.2")?;
    let cluster = RedisCluster::start_nodes(3, vec![RedisServer::builder().programs(valkey); 4])?;
    let load = Load::start(&cluster.url()).await?;
    let [first, second, third, newer] = cluster.nodes() else { unreachable!("four nodes") };
    for (slots, owner) in [((0, 5460), first), ((5461, 10_921), second), ((10_922, 16_383), third)]
    {
        cluster.move_at_once(slots, owner, newer)?;
        load.goes_on().await;
    }
    load.end(Duration::from_secs(30)).await
}
