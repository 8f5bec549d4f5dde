//! Which server the signal connection connects to.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::RespVersion;
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig};
use syncguard_core::LockError;
use tokio::time::Instant;

use crate::error;
use crate::link::Link;

/// The server that has the locks, found in the same way as by the backend's clients.
pub(super) struct Route {
    links: Arc<[Arc<Link>]>,
    /// The node of a cluster; `None` without a cluster.
    node: Option<Server>,
}

impl Route {
    /// The longest queue of changes that the session has not read yet. If it overflows, all watches end.
    const BACKLOG: usize = 256;

    pub(super) fn new(links: &Arc<[Arc<Link>]>, node: Option<Server>) -> Self {
        Self { links: Arc::clone(links), node }
    }

    /// A new client, not connected yet. It connects once and does not reconnect, because the server forgets the watched
    /// records with the connection.
    ///
    /// With Sentinel, it connects to the master that the backend uses.
    pub(super) async fn client(&self, command_timeout: Duration) -> Result<Client, LockError> {
        let up = self.links.iter().find(|link| link.is_up());
        let link = up.or(self.links.first()).ok_or_else(error::not_connected)?;
        // A lost connection is opened again, as for a command: the server may be another one by now.
        let live = link.live(Instant::now() + command_timeout).await?;
        let client = &live.client;
        let mut config =
            Config { version: RespVersion::RESP3, fail_fast: true, ..client.client_config() };
        // The master that the Sentinels named to the backend: the Sentinel that was asked may be gone.
        let of_sentinel = || client.active_connections().pop().filter(|_| client.uses_sentinels());
        if let Some(server) = self.node.clone().or_else(of_sentinel) {
            config.server = ServerConfig::Centralized { server };
        }
        let performance = PerformanceConfig {
            default_command_timeout: command_timeout,
            broadcast_channel_capacity: Self::BACKLOG,
            ..client.perf_config()
        };
        let connection = ConnectionConfig {
            max_command_attempts: 1,
            auto_client_setname: false,
            ..client.connection_config().clone()
        };
        Ok(Client::new(config, Some(performance), Some(connection), None))
    }
}
