//! Which server the signal connection connects to.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::types::RespVersion;
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig};
use syncguard_core::{ErrorCode, LockError};

/// The server that has the locks, found in the same way as by the backend's clients.
pub(super) struct Route {
    clients: Box<[Client]>,
    /// The node of a cluster; `None` without a cluster.
    node: Option<Server>,
}

impl Route {
    /// The longest queue of changes that the session has not read yet. If it overflows, all watches end.
    const BACKLOG: usize = 256;

    pub(super) fn new(clients: &[Client], node: Option<Server>) -> Self {
        Self { clients: clients.into(), node }
    }

    /// A new client, not connected yet. It connects once and does not reconnect, because the server forgets the watched
    /// records with the connection.
    ///
    /// With Sentinel, it asks the Sentinels for the master.
    pub(super) fn client(&self, command_timeout: Duration) -> Result<Client, LockError> {
        let connected = self.clients.iter().find(|client| client.is_connected());
        let client = connected.or(self.clients.first()).ok_or_else(no_connection)?;
        let mut config =
            Config { version: RespVersion::RESP3, fail_fast: true, ..client.client_config() };
        if let Some(node) = &self.node {
            config.server = ServerConfig::Centralized { server: node.clone() };
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

fn no_connection() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "there is no connection to the server")
}
