//! Signals by client-side caching: Redis remembers which records a connection has read, and tells the connection
//! when a record changes, is deleted or expires.
//!
//! Releases pay nothing for signals. `PUBLISH` in the release script would cost the server 4 % of each cycle, also
//! without waiters. Waiters hear every client, including the TypeScript library.
//!
//! Signals use their own connections, in RESP3: one to each server that has a lock with a waiter. The first waiter
//! opens the connection; it is closed after a time without waiters. Without a connection, `watch` returns `None`.

mod session;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::types::config::Server;
use syncguard_core::LockError;
use syncguard_core::authoring::OutageLog;
use syncguard_core::authoring::signals::{SignalHub, SignalLimits};
use syncguard_core::contract::{KeyWatch, SignalStatus};
use tokio::time::Instant;

use crate::client::Connections;
use crate::connection_name::ConnectionName;
use crate::error;
use crate::link::{self, Link};
use crate::live::Live;

/// The signal connections of a backend.
pub(crate) struct Signals {
    links: Arc<[Arc<Link>]>,
    limits: SignalLimits,
    name: Option<ConnectionName>,
    outage: OutageLog,
    /// One hub for each node of a cluster; without a cluster, one at most.
    hubs: Mutex<Vec<Hub>>,
    /// Why the last connection ended.
    failure: Arc<Mutex<Option<LockError>>>,
}

struct Hub {
    /// The node of a cluster.
    node: Option<Server>,
    /// How often the backend's connections had been replaced: the server may be another one since then.
    generation: u64,
    signals: Arc<SignalHub>,
}

impl Signals {
    /// Signals over connections with the same settings. `opening` is the longest time to connect.
    pub(crate) fn new(
        connections: &Connections,
        opening: Duration,
        name: Option<ConnectionName>,
    ) -> Self {
        let command = connections.command_timeout();
        Self {
            links: Arc::clone(connections.links()),
            limits: SignalLimits { open: opening, step: command, confirm: command },
            name,
            outage: OutageLog::default(),
            hubs: Mutex::default(),
            failure: Arc::default(),
        }
    }

    /// Why signals are failing, if they are.
    pub(crate) fn failure(&self) -> Option<LockError> {
        let failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone();
        failure.filter(|_| self.status() == SignalStatus::Failing)
    }

    /// Watches the record with this name; `None` if signals are not available at the moment. On a cluster, `slot` is
    /// the slot of the record.
    pub(crate) async fn watch(&self, slot: Option<u16>, name: &str) -> Option<KeyWatch> {
        self.hub(slot)?.watch(name).await
    }

    /// The worst status of all servers.
    pub(crate) fn status(&self) -> SignalStatus {
        let mut worst = SignalStatus::Unused;
        for Hub { signals: hub, .. } in &*self.hubs() {
            match hub.status() {
                SignalStatus::Failing => return SignalStatus::Failing,
                SignalStatus::Unused => {}
                working => worst = working,
            }
        }
        worst
    }

    /// The hub of the server that has the slot, as far as the backend's own client knows.
    fn hub(&self, slot: Option<u16>) -> Option<Arc<SignalHub>> {
        let mut current = self.links.iter().map(|link| link.current());
        let has_nodes = slot.is_some() && current.any(|live| live.service.cluster().is_some());
        let nodes = if has_nodes { Some(link::nodes(&self.links)?) } else { None };
        let generation = self.links.iter().map(|link| link.generation()).sum();
        let node = match (&nodes, slot) {
            (Some(nodes), Some(slot)) => Some(nodes.get_server(slot)?.clone()),
            _ => None,
        };
        let mut hubs = self.hubs();
        let known = hubs.iter().find(|hub| hub.node == node && hub.generation == generation);
        if let Some(known) = known {
            return Some(Arc::clone(&known.signals));
        }
        let hub = Arc::new(self.new_hub(node.clone()));
        let masters = nodes.map(|nodes| nodes.unique_primary_nodes());
        let is_gone = |old: &mut Hub| {
            let masters = masters.as_ref().zip(old.node.as_ref());
            old.generation != generation
                || masters.is_some_and(|(masters, node)| !masters.contains(node))
        };
        let gone: Vec<_> = hubs.extract_if(.., is_gone).collect();
        hubs.push(Hub { node, generation, signals: Arc::clone(&hub) });
        drop(hubs);
        // Closed after the lock is dropped: woken waiters may call `watch` at once.
        for Hub { signals: hub, .. } in gone {
            hub.close();
        }
        Some(hub)
    }

    fn new_hub(&self, node: Option<Server>) -> SignalHub {
        let (links, name) = (Arc::clone(&self.links), self.name.clone());
        let (failure, command) = (Arc::clone(&self.failure), self.limits.step);
        let listen = move |subscriptions| {
            let (links, node, name) = (Arc::clone(&links), node.clone(), name.clone());
            let failure = Arc::clone(&failure);
            async move {
                let serving = async {
                    let live = up(&links, command).await?;
                    let listening = live.service.listen(node, command).await?;
                    drop(live);
                    session::serve(listening, name, command, subscriptions).await
                };
                serving.await.inspect_err(|error| {
                    *failure.lock().unwrap_or_else(PoisonError::into_inner) = Some(error.clone());
                })
            }
        };
        SignalHub::new("redis", self.limits, self.outage.clone(), listen)
    }

    fn hubs(&self) -> MutexGuard<'_, Vec<Hub>> {
        self.hubs.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A connection of the backend. A lost one is opened again, as for a command: the server may be another one by now.
async fn up(links: &[Arc<Link>], command_timeout: Duration) -> Result<Arc<Live>, LockError> {
    let up = links.iter().find(|link| link.is_up());
    let link = up.or(links.first()).ok_or_else(error::not_connected)?;
    link.live(Instant::now() + command_timeout).await
}

/// The backend is gone, so its sessions end.
impl Drop for Signals {
    fn drop(&mut self) {
        for Hub { signals: hub, .. } in &*self.hubs() {
            hub.close();
        }
    }
}
