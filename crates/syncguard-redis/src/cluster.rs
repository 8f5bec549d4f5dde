//! Changes of a cluster that fred reports, or has to be told of.

#![allow(unreachable_pub, missing_debug_implementations, reason = "a connection may have one")]

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::{ClientLike as _, ClusterInterface as _, EventInterface as _};
use fred::types::ClusterStateChange;
use fred::types::cluster::ClusterRouting;
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;
use tokio::time::{sleep, timeout};

/// The state of a cluster as one client sees it.
pub struct Cluster {
    client: Client,
    seen: Mutex<NodeChanges>,
    is_syncing: Arc<AtomicBool>,
}

struct NodeChanges {
    events: Receiver<Vec<ClusterStateChange>>,
    count: u64,
}

impl Cluster {
    /// How often the slot map is read again after a silent node.
    const SYNCS: u32 = 8;
    const PAUSE: Duration = Duration::from_millis(250);
    const SYNC_TIMEOUT: Duration = Duration::from_secs(5);

    pub(crate) fn of(client: &Client) -> Self {
        let seen = NodeChanges { events: client.cluster_change_rx(), count: 0 };
        Self { client: client.clone(), seen: Mutex::new(seen), is_syncing: Arc::default() }
    }

    /// The nodes and their slots, as far as fred knows.
    pub(crate) fn nodes(&self) -> Option<ClusterRouting> {
        self.client.cached_cluster_state()
    }

    /// How often nodes have come or gone until now.
    ///
    /// A client that follows redirections sends a command again if it drops the connection of the first sending,
    /// because the node has left the cluster or the connection is broken. Before that, it reports that a node was
    /// removed or added again.
    pub(crate) fn changes(&self) -> u64 {
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match seen.events.try_recv() {
                Ok(changes) => seen.count += u64::from(moves_connections(&changes)),
                Err(TryRecvError::Lagged(_)) => seen.count += 1,
                Err(TryRecvError::Empty) => return seen.count,
                // The client was closed, and may be opened again.
                Err(TryRecvError::Closed) => {
                    seen.events = self.client.cluster_change_rx();
                    seen.count += 1;
                    return seen.count;
                }
            }
        }
    }

    /// Makes the client read the slot map again, because a node has not answered in time and another node may have
    /// taken over.
    ///
    /// fred reads the map when a node says `MOVED` or a connection breaks. A silent node does neither. So the map is
    /// read a few times; each silent node starts that again.
    pub(crate) fn sync_slots(&self) {
        let Ok(runtime) = Handle::try_current() else { return };
        // Without a reconnect policy, a failed read of the slot map ends fred's client for good.
        if !self.client.has_reconnect_policy() {
            return;
        }
        if self.is_syncing.swap(true, Ordering::AcqRel) {
            return;
        }
        let (client, mark) = (self.client.clone(), SyncMark(Arc::clone(&self.is_syncing)));
        runtime.spawn(async move {
            let _mark = mark;
            for _ in 0..Self::SYNCS {
                // The next call shows whether this helped.
                let _ = timeout(Self::SYNC_TIMEOUT, client.sync_cluster()).await;
                sleep(Self::PAUSE).await;
            }
        });
    }
}

/// Marks that a task reads the slot map, until it is dropped.
struct SyncMark(Arc<AtomicBool>);

impl Drop for SyncMark {
    fn drop(&mut self) {
        self.0.store(false, Ordering::Release);
    }
}

fn moves_connections(changes: &[ClusterStateChange]) -> bool {
    changes.iter().any(|change| !matches!(change, ClusterStateChange::Rebalance))
}
