//! Hearing that a lock may be free, by client-side caching: Redis remembers which records a connection has
//! read, and tells it when one of them changes, goes or expires, whoever did it.
//!
//! A release costs nothing for it; `PUBLISH` in its script would cost the server 4 % of each cycle, also where
//! nobody waits. Releases of the TypeScript library are heard as well.
//!
//! Signals come over connections of their own, in RESP3: one to each server that has a lock somebody waits for. It
//! is opened for the first one who waits there, and closed when nobody has waited for a while. While there is
//! none, `watch` answers that it cannot tell.

mod board;
mod route;
mod session;
mod source;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClusterInterface as _;
use fred::types::config::Server;
use syncguard_core::authoring::Episode;
use syncguard_core::contract::{KeyWatch, SignalStatus};

use self::route::Route;
use self::source::{Limits, Source};
use crate::client::Connections;

/// What a backend does to hear of releases.
pub(crate) struct Signals {
    clients: Box<[Client]>,
    limits: Limits,
    outage: Arc<Episode>,
    /// By the node of a cluster; without one there is one at the most.
    sources: Mutex<Vec<(Option<Server>, Arc<Source>)>>,
}

impl Signals {
    /// With connections like these. `opening` is how long connecting may take.
    pub(crate) fn new(connections: &Connections, opening: Duration) -> Self {
        Self {
            clients: connections.clients().cloned().collect(),
            limits: Limits { opening, command: connections.command_timeout() },
            outage: Arc::default(),
            sources: Mutex::default(),
        }
    }

    /// Begins to listen for the record with this name; `None` if that cannot be done at the moment. On a
    /// cluster, `slot` is that of the record.
    pub(crate) async fn watch(&self, slot: Option<u16>, name: &str) -> Option<KeyWatch> {
        self.source(slot)?.watch(name).await
    }

    /// Failing if it is so on any server.
    pub(crate) fn status(&self) -> SignalStatus {
        let mut worst = SignalStatus::Unused;
        for (_, source) in &*self.sources() {
            match source.status() {
                SignalStatus::Failing => return SignalStatus::Failing,
                SignalStatus::Unused => {}
                working => worst = working,
            }
        }
        worst
    }

    /// That of the server which has the slot, as far as the backend's own client knows.
    fn source(&self, slot: Option<u16>) -> Option<Arc<Source>> {
        let nodes = match slot {
            Some(_) => Some(self.clients.iter().find_map(Client::cached_cluster_state)?),
            None => None,
        };
        let server = match (&nodes, slot) {
            (Some(nodes), Some(slot)) => Some(nodes.get_server(slot)?.clone()),
            _ => None,
        };
        let mut sources = self.sources();
        if let Some((_, source)) = sources.iter().find(|(other, _)| *other == server) {
            return Some(Arc::clone(source));
        }
        let route = Route::new(&self.clients, server.clone());
        let source = Arc::new(Source::new(route, Arc::clone(&self.outage), self.limits));
        let mut gone = Vec::new();
        if let Some(nodes) = nodes {
            let masters = nodes.unique_primary_nodes();
            let is_gone = |server: &Option<Server>| {
                server.as_ref().is_some_and(|server| !masters.contains(server))
            };
            gone.extend(sources.extract_if(.., |(server, _)| is_gone(server)));
        }
        sources.push((server, Arc::clone(&source)));
        drop(sources);
        // Whoever hears that these are over may ask for a watch at once.
        drop(gone);
        Some(source)
    }

    fn sources(&self) -> MutexGuard<'_, Vec<(Option<Server>, Arc<Source>)>> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
