//! Opening the connections of a backend.

use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::socket2::TcpKeepalive;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, TcpConfig,
};
use syncguard_core::LockError;

use crate::client::Connections;
use crate::config::RedisOptions;
use crate::connection_name::ConnectionName;
use crate::error::{self, Stage};

/// Opens connections. The caller bounds the time. If this fails or is dropped, the tasks that were started end with
/// `connections`.
pub(crate) async fn open(
    config: Config,
    sections: usize,
    options: &RedisOptions,
    name: Option<ConnectionName>,
) -> Result<Connections, LockError> {
    let clustered = config.server.is_clustered();
    let clients: Vec<Client> = (0..options.connections)
        .map(|_| {
            Client::new(
                config.clone(),
                Some(performance(options)),
                Some(connection(options)),
                Some(reconnect_policy()),
            )
        })
        .collect();
    let mut connections = Connections::over(&clients, clustered, sections, options.command_timeout);
    for client in &clients {
        if let Some(name) = name.clone() {
            connections.own(name.set_always(client, options.command_timeout));
        }
        // Not `init`: if its future is dropped, its task stays behind, and may connect and live for ever.
        // `wait_for_connect` is polled first, so that it misses no outcome.
        let start = async { connections.own(client.connect()) };
        let opened = tokio::join!(biased; client.wait_for_connect(), start).0;
        opened.map_err(|error| error::from_driver(&error, Stage::Connecting))?;
    }
    Ok(connections)
}

fn performance(options: &RedisOptions) -> PerformanceConfig {
    PerformanceConfig {
        default_command_timeout: options.command_timeout,
        ..PerformanceConfig::default()
    }
}

fn connection(options: &RedisOptions) -> ConnectionConfig {
    // A connection takes four round trips to open, so a tight command timeout would be too tight here.
    let timeout = options.command_timeout.max(Duration::from_secs(1));
    ConnectionConfig {
        connection_timeout: timeout,
        internal_command_timeout: timeout,
        max_command_attempts: 1,
        max_redirections: 0,
        tcp: TcpConfig {
            nodelay: Some(true),
            keepalive: Some(TcpKeepalive::new().with_time(Duration::from_secs(30))),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

/// Reconnects for ever, at least once a second, so that locks are back within two seconds after their server.
fn reconnect_policy() -> ReconnectPolicy {
    ReconnectPolicy::new_exponential(0, 20, 1000, 2)
}
