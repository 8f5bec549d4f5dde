//! fred's connection for signals.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::{Config, ConnectionConfig, PerformanceConfig, Server, ServerConfig};
use fred::types::{ConnectHandle, RespVersion};
use futures_util::future::BoxFuture;
use syncguard_core::{ErrorCode, LockError};

use crate::error::{self, Stage};

/// The longest queue of changes that the session has not read yet. If it overflows, all watches end.
const BACKLOG: usize = 256;

/// A new client beside this one, to the same server or to a node of the cluster, not connected yet. It connects once and
/// does not reconnect, because the server forgets the watched records with the connection.
pub(crate) fn client(beside: &Client, node: Option<Server>, command_timeout: Duration) -> Client {
    let mut config =
        Config { version: RespVersion::RESP3, fail_fast: true, ..beside.client_config() };
    // The master that the Sentinels named to the backend: the Sentinel that was asked may be gone.
    let of_sentinel = || beside.active_connections().pop().filter(|_| beside.uses_sentinels());
    if let Some(server) = node.or_else(of_sentinel) {
        config.server = ServerConfig::Centralized { server };
    }
    let performance = PerformanceConfig {
        default_command_timeout: command_timeout,
        broadcast_channel_capacity: BACKLOG,
        ..beside.perf_config()
    };
    let connection = ConnectionConfig {
        max_command_attempts: 1,
        auto_client_setname: false,
        ..beside.connection_config().clone()
    };
    Client::new(config, Some(performance), Some(connection), None)
}

/// Connects. The returned future ends with the connection, and the connection with it.
pub(crate) async fn connect(client: &Client) -> Result<BoxFuture<'static, LockError>, LockError> {
    let mut driver = None;
    // `wait_for_connect` is polled first, so that it does not miss the outcome.
    let start = async { driver = Some(Driver(client.connect())) };
    let connected = tokio::join!(biased; client.wait_for_connect(), start).0;
    connected.map_err(|error| error::from_driver(&error, Stage::Connecting))?;
    Ok(Box::pin(driver.ok_or_else(lost)?.ended()))
}

pub(crate) fn lost() -> LockError {
    LockError::new(ErrorCode::ServiceUnavailable, "the connection for signals was lost")
}

/// A guard that ends the driver's task.
struct Driver(ConnectHandle);

impl Driver {
    /// Waits until the task ends, which it does with its connection, and returns the reason.
    async fn ended(mut self) -> LockError {
        match (&mut self.0).await {
            Ok(Err(error)) => error::from_driver(&error, Stage::Asking),
            Ok(Ok(())) | Err(_) => lost(),
        }
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
