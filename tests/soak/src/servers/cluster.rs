//! Faults of a cluster. Each write waits for its replica, so no answered write is lost when a replica takes over.
//! Slots rest for a while before a takeover, because a replica that does not know of a moved slot would lose it.

use std::collections::BTreeMap;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_history::{Fault, Random};
use syncguard_test_services::redis::{RedisCluster, RedisServer};

use super::Action;
use crate::store::{Server, Store};

pub(super) fn actions() -> Vec<Action> {
    let action = |fault, every, takes_away, run: fn(&Store, &mut Random) -> Result<()>| Action {
        fault,
        every,
        takes_away,
        run,
    };
    vec![
        action(Fault::Severed, (20, 80), false, sever),
        action(Fault::Delayed, (300, 1200), false, delay),
        action(Fault::Resharded, (1500, 4000), false, reshard),
        action(Fault::FailedOver, (15_000, 30_000), true, fail_over),
        action(Fault::ServerStopped, (60_000, 90_000), true, stop_a_master),
    ]
}

fn with(store: &Store, work: impl FnOnce(&mut RedisCluster) -> Result<()>) -> Result<()> {
    match &mut *store.server() {
        Server::Cluster(cluster) => work(cluster),
        _ => Ok(()),
    }
}

/// Ends one connection of a client, with a command in progress if there is one.
fn sever(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let node = random.choose(cluster.nodes());
        let clients = node.cli(&["CLIENT", "LIST", "TYPE", "normal"])?;
        let ids: Vec<&str> = clients
            .lines()
            .filter(|line| !line.contains("cmd=client|list"))
            .filter_map(|line| line.split(' ').next()?.strip_prefix("id="))
            .collect();
        if !ids.is_empty() {
            // The connection may have ended by itself.
            let _ = node.cli(&["CLIENT", "KILL", "ID", random.choose::<&str>(&ids)]);
        }
        Ok(())
    })
}

fn delay(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let lasts = random.millis(30, 300).as_millis().to_string();
        random.choose(cluster.nodes()).cli(&["CLIENT", "PAUSE", &lasts, "ALL"])?;
        Ok(())
    })
}

/// Moves the slot of a shard from its master to another master.
fn reshard(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let (slots, nodes) = (slots(cluster)?, cluster.nodes());
        let tag = format!("{{syncguard:{:02}}}", random.below(64));
        let slot: u16 = nodes[0].cli(&["CLUSTER", "KEYSLOT", &tag])?.parse()?;
        let from = *slots.range(..=slot).next_back().context("a slot of nobody")?.1;
        let others: Vec<usize> = slots.into_values().filter(|to| *to != from).collect();
        if others.is_empty() {
            return Ok(());
        }
        cluster.move_slot(slot, &nodes[from], &nodes[*random.choose(&others)])
    })
}

/// A replica takes over, on command or because its master was killed. The killed master comes back as its replica.
fn fail_over(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let master = a_master(cluster, random)?;
        let replica = replica_of(cluster, master)?;
        let heir = cluster.nodes()[replica].port();
        thread::sleep(REST);
        if random.percent(50) {
            cluster.nodes()[replica].cli(&["CLUSTER", "FAILOVER"])?;
            cluster.wait_until_master(heir)?;
        } else {
            cluster.nodes_mut()[master].kill()?;
            cluster.wait_until_master(heir)?;
            // Without a replica, writes cannot wait for one.
            cluster.nodes_mut()[master].restart()?;
        }
        ready(cluster, replica)
    })
}

/// A master is stopped until its replica has taken over, then goes on.
fn stop_a_master(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let master = a_master(cluster, random)?;
        let replica = replica_of(cluster, master)?;
        let heir = cluster.nodes()[replica].port();
        thread::sleep(REST);
        cluster.nodes_mut()[master].pause()?;
        cluster.wait_until_master(heir)?;
        cluster.nodes_mut()[master].resume()?;
        ready(cluster, replica)
    })
}

/// Waits until all slots are served, and this master has its replica.
fn ready(cluster: &RedisCluster, master: usize) -> Result<()> {
    cluster.wait_until_ok()?;
    let is_followed = |role: &str| role.starts_with("master") && role.lines().count() > 3;
    syncguard_test_services::wait::until("a replica", Duration::from_secs(30), || {
        Ok(is_followed(&cluster.nodes()[master].cli(&["ROLE"])?))
    })
}

/// Waits until all nodes know of the last moved slot.
const REST: Duration = Duration::from_secs(2);

/// The number of a master with slots.
fn a_master(cluster: &RedisCluster, random: &mut Random) -> Result<usize> {
    let masters: Vec<usize> = slots(cluster)?.into_values().collect();
    Ok(*random.choose(&masters))
}

/// The first slot of each range, and the number of its node.
fn slots(cluster: &RedisCluster) -> Result<BTreeMap<u16, usize>> {
    let mut slots = BTreeMap::new();
    for (number, node) in cluster.nodes().iter().enumerate() {
        // Each node is asked for its own slots.
        let lines = node.cli(&["CLUSTER", "NODES"])?;
        let own = lines.lines().find(|line| line.contains("myself,master")).unwrap_or_default();
        for range in own.split(' ').skip(8).filter(|range| !range.starts_with('[')) {
            let first = range.split('-').next().unwrap_or_default();
            slots.insert(first.parse()?, number);
        }
    }
    Ok(slots)
}

fn replica_of(cluster: &RedisCluster, master: usize) -> Result<usize> {
    let id = cluster.nodes()[master].cli(&["CLUSTER", "MYID"])?;
    let follows = |node: &RedisServer| {
        let lines = node.cli(&["CLUSTER", "NODES"])?;
        let own = lines.lines().find(|line| line.contains("myself,slave"));
        anyhow::Ok(own.is_some_and(|line| line.split(' ').nth(3) == Some(&id)))
    };
    for (number, node) in cluster.nodes().iter().enumerate() {
        if follows(node)? {
            return Ok(number);
        }
    }
    anyhow::bail!("a master without a replica")
}
