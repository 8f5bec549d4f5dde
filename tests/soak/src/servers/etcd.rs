//! Faults of a cluster of etcd.

use std::thread;

use anyhow::Result;
use syncguard_history::{Fault, Random};
use syncguard_test_services::etcd::EtcdCluster;

use super::Action;
use crate::store::{Server, Store};

pub(super) fn actions() -> Vec<Action> {
    let action = |fault, every, run: fn(&Store, &mut Random) -> Result<()>| Action {
        fault,
        every,
        takes_away: true,
        run,
    };
    vec![
        action(Fault::FailedOver, (2_000, 5_000), move_leader),
        action(Fault::ServerRestarted, (8_000, 16_000), restart),
        action(Fault::Refusing, (40_000, 80_000), fill_up),
        action(Fault::ServerStopped, (20_000, 40_000), stop_the_leader),
    ]
}

fn with(store: &Store, work: impl FnOnce(&mut EtcdCluster) -> Result<()>) -> Result<()> {
    match &mut *store.server() {
        Server::Etcd(cluster) => work(cluster),
        _ => Ok(()),
    }
}

/// Another member leads, if it can, and the history is compacted.
fn move_leader(store: &Store, _: &mut Random) -> Result<()> {
    with(store, |cluster| {
        // A member that is still behind after the last fault does not take over.
        let _ = cluster.move_leader();
        // Without a write since the last time, there is nothing to compact.
        let _ = cluster.compact(cluster.leader()?);
        Ok(())
    })
}

/// SIGKILL, and a start with the data on disk: one member, mostly the leader; or two, and with them the quorum; or all.
fn restart(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let leader = cluster.leader()?;
        let count = match random.below(10) {
            0 => 3,
            1..4 => 2,
            _ => 1,
        };
        let killed: Vec<usize> = (0..count).map(|step| (leader + step) % cluster.size()).collect();
        for member in &killed {
            cluster.kill(*member)?;
        }
        thread::sleep(random.millis(0, 2500));
        for member in &killed {
            cluster.start_again(*member)?;
        }
        cluster.leader().map(drop)
    })
}

/// A leader that stops is replaced, and believes that it leads when it goes on. Longer than any caller waits.
fn stop_the_leader(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let leader = cluster.leader()?;
        cluster.pause(leader)?;
        thread::sleep(random.millis(5500, 6500));
        cluster.resume(leader)
    })
}

/// Writes of another program use up the quota.
fn fill_up(store: &Store, random: &mut Random) -> Result<()> {
    with(store, |cluster| {
        let value = "A".repeat(1_400_000);
        for number in 0..200 {
            let put = format!(r#"{{"key":"anVuay8{}","value":"{value}"}}"#, number % 10);
            if cluster.post(0, "kv/put", &put).is_err() {
                break;
            }
        }
        thread::sleep(random.millis(300, 1200));
        cluster.make_room()
    })
}
