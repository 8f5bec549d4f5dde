//! A cluster of three masters and three replicas that changes under load.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

mod load;

use std::time::{Duration, Instant};

use anyhow::Result;
use syncguard_history::{Fault, Invariant};
use syncguard_redis::contract::{ExtendRequest, IsLockedRequest, LookupRequest, ReleaseRequest};
use syncguard_redis::{LockBackend as _, RedisOptions, WaitReplicas};
use syncguard_test_services::redis::RedisCluster;
use tokio::task::block_in_place;

use self::load::Load;
use crate::redis::sharded::connect_with;
use crate::redis::support::{patient, request, take};

/// The limit for service after the cluster itself works again; the rest is for a busy machine.
const RECOVERY: Duration = Duration::from_secs(60);

fn waiting() -> RedisOptions {
    RedisOptions::new().with_wait_replicas(WaitReplicas::new(1))
}

/// The slots of the shards on a node, which is one of three with equal shares.
fn slots_of(node: usize) -> Vec<u16> {
    let slots =
        (0..64).map(|shard| fred::util::redis_keyslot(format!("{{app:{shard:02}}}").as_bytes()));
    slots.filter(|slot| usize::from(*slot) * 3 / 16_384 == node).collect()
}

/// Without that, the newest grants may be lost: then a key has a second holder, and a fence may repeat. A lock whose
/// fence is below a lost one counts as over in the check, and is not. Nothing else may be broken.
#[tokio::test(flavor = "multi_thread")]
async fn a_failover_without_forgets_the_newest_grants_at_most() -> Result<()> {
    let mut broken = failover(RedisOptions::new()).await?;
    let permitted = [
        Invariant::HoldersTakeTurns,
        Invariant::LocksTakeTurns,
        Invariant::FencesGrow,
        Invariant::OverForGood,
    ];
    broken.retain(|it| !permitted.contains(it));
    assert!(broken.is_empty(), "{broken:?}");
    Ok(())
}

async fn failover(options: RedisOptions) -> Result<Vec<Invariant>> {
    let mut cluster = RedisCluster::start_with_replicas(3)?;
    let load = Load::start(&cluster, options).await?;
    load.more(200).await;
    let heir = cluster.nodes()[3].port();
    load.note(Fault::Killed);
    cluster.nodes_mut()[0].kill()?;
    block_in_place(|| cluster.wait_until_master(heir))?;
    // Its own replica is the killed server, and without it writes cannot wait for a replica.
    block_in_place(|| cluster.nodes_mut()[0].restart())?;
    assert!(load.recovered().await? < RECOVERY);
    block_in_place(|| cluster.wait_until_ok())?;
    load.more(300).await;
    let broken = load.stop().await?;
    for it in &broken {
        println!("{it}");
    }
    Ok(broken.into_iter().map(|it| it.invariant).collect())
}

/// A shorter pause is only a pause for the locks of this node.
#[tokio::test(flavor = "multi_thread")]
async fn a_short_pause_is_nothing_more() -> Result<()> {
    let mut cluster = RedisCluster::start_with_replicas(3)?;
    let load = Load::start(&cluster, RedisOptions::new()).await?;
    load.more(100).await;
    for node in [0, 1, 2] {
        cluster.nodes_mut()[node].pause()?;
        tokio::time::sleep(Duration::from_millis(800)).await;
        cluster.nodes_mut()[node].resume()?;
        assert!(load.recovered().await? < RECOVERY);
        load.more(50).await;
    }
    let broken = load.stop().await?;
    assert!(broken.is_empty(), "{}", broken[0]);
    Ok(())
}

/// Only `cargo xtask test --full` runs these.
mod long {
    use super::*;

    /// Shards move from node to node and back, with all their records, during work.
    #[tokio::test(flavor = "multi_thread")]
    async fn slots_that_move_back_and_forth_break_nothing() -> Result<()> {
        let cluster = RedisCluster::start_with_replicas(3)?;
        let load = Load::start(&cluster, RedisOptions::new()).await?;
        load.more(200).await;
        let (here, there) = (&cluster.nodes()[0], &cluster.nodes()[1]);
        let slots = slots_of(0);
        assert!(slots.len() >= 10, "{slots:?}");
        for _ in 0..3 {
            for slot in &slots {
                block_in_place(|| cluster.move_slot(*slot, here, there))?;
            }
            load.more(100).await;
            for slot in &slots {
                block_in_place(|| cluster.move_slot(*slot, there, here))?;
            }
            load.more(100).await;
        }
        assert!(load.recovered().await? < RECOVERY);
        let broken = load.stop().await?;
        assert!(broken.is_empty(), "{}", broken[0]);
        Ok(())
    }

    /// A client that slept through all of this finds its locks at their new places.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_client_that_knows_an_old_topology_finds_its_locks() -> Result<()> {
        let cluster = RedisCluster::start(3)?;
        let patient = async || connect_with(&cluster, patient()).await;
        let (backend, keyless) = (patient().await?, patient().await?);
        let mut locks = Vec::new();
        for number in 0..40 {
            locks.push(take(&backend, &format!("k{number}"), 600_000).await);
        }
        block_in_place(|| {
            for (from, to) in [(0, 1), (1, 2), (2, 0)] {
                for slot in slots_of(from) {
                    cluster.move_slot(slot, &cluster.nodes()[from], &cluster.nodes()[to])?;
                }
            }
            anyhow::Ok(())
        })?;
        let started = Instant::now();
        for (number, lock) in locks.iter().enumerate() {
            let key = format!("k{number}");
            assert!(
                keyless.lookup(LookupRequest::by_lock_id(lock.lock_id)).await?.is_some(),
                "{key}"
            );
            assert!(!backend.acquire(request(&key, 1000)).await?.is_acquired(), "{key}");
            let extend = ExtendRequest::new(lock.lock_id, Duration::from_secs(60))?;
            assert!(keyless.extend(extend).await?.is_extended(), "{key}");
            assert!(
                backend.release(ReleaseRequest::new(lock.lock_id)).await?.is_released(),
                "{key}"
            );
            assert!(!keyless.is_locked(IsLockedRequest::new(&*key)?).await?, "{key}");
            assert_eq!(take(&backend, &key, 1000).await.fence.get(), 2, "{key}");
        }
        println!("40 locks took {:?}", started.elapsed());
        Ok(())
    }

    /// A node joins, gets a third of another node's shards, gives them back, and leaves.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_node_that_joins_and_leaves_breaks_nothing() -> Result<()> {
        let mut cluster = RedisCluster::start(3)?;
        let load = Load::start(&cluster, RedisOptions::new()).await?;
        load.more(100).await;
        block_in_place(|| cluster.add_node().map(drop))?;
        let slots: Vec<u16> = slots_of(2).into_iter().step_by(3).collect();
        for back in [false, true] {
            let (here, there) = (&cluster.nodes()[2], &cluster.nodes()[3]);
            let (from, to) = if back { (there, here) } else { (here, there) };
            for slot in &slots {
                block_in_place(|| cluster.move_slot(*slot, from, to))?;
            }
            assert!(load.recovered().await? < RECOVERY);
            load.more(100).await;
        }
        println!("the node leaves");
        block_in_place(|| cluster.remove_last_node())?;
        assert!(load.recovered().await? < RECOVERY);
        load.more(100).await;
        let broken = load.stop().await?;
        assert!(broken.is_empty(), "{}", broken[0]);
        Ok(())
    }

    /// A master dies, and its replica takes over. If writes wait for replicas, no lock is lost.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_failover_with_replicas_waited_for_breaks_nothing() -> Result<()> {
        let broken = failover(waiting()).await?;
        assert!(broken.is_empty(), "{broken:?}");
        Ok(())
    }

    /// A master is stopped for longer than the cluster waits for it, and goes on after another one has taken over.
    #[tokio::test(flavor = "multi_thread")]
    async fn a_node_that_is_paused_and_goes_on_breaks_nothing() -> Result<()> {
        let mut cluster = RedisCluster::start_with_replicas(3)?;
        let load = Load::start(&cluster, waiting()).await?;
        load.more(200).await;
        let heir = cluster.nodes()[4].port();
        load.note(Fault::ServerStopped);
        cluster.nodes_mut()[1].pause()?;
        block_in_place(|| cluster.wait_until_master(heir))?;
        cluster.nodes_mut()[1].resume()?;
        assert!(load.recovered().await? < RECOVERY);
        load.more(300).await;
        let broken = load.stop().await?;
        assert!(broken.is_empty(), "{}", broken[0]);
        Ok(())
    }
}
