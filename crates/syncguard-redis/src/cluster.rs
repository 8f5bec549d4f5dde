//! Whether a cluster's client may have sent a command twice.

use std::sync::{Mutex, PoisonError};

use fred::clients::Client;
use fred::interfaces::EventInterface;
use fred::types::ClusterStateChange;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::TryRecvError;

/// Counts the nodes that came and went.
///
/// fred sends a command for a second time in two cases. The first is `MOVED`: nothing was run then. The
/// second is that it drops the connection on which the answer was to come, because the node has left the
/// cluster or the connection is broken. Before that it says that a node was removed, or added again.
pub(crate) struct Changes(Mutex<Seen>);

struct Seen {
    events: Receiver<Vec<ClusterStateChange>>,
    count: u64,
}

impl Changes {
    pub(crate) fn of(client: &Client) -> Self {
        Self(Mutex::new(Seen { events: client.cluster_change_rx(), count: 0 }))
    }

    /// How many were seen until now.
    pub(crate) fn count(&self, client: &Client) -> u64 {
        let mut seen = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match seen.events.try_recv() {
                Ok(changes) => seen.count += u64::from(moves_connections(&changes)),
                Err(TryRecvError::Lagged(_)) => seen.count += 1,
                Err(TryRecvError::Empty) => return seen.count,
                // The client was closed; it may be opened again.
                Err(TryRecvError::Closed) => {
                    seen.events = client.cluster_change_rx();
                    seen.count += 1;
                    return seen.count;
                }
            }
        }
    }
}

fn moves_connections(changes: &[ClusterStateChange]) -> bool {
    changes.iter().any(|change| !matches!(change, ClusterStateChange::Rebalance))
}
