//! Opening a connection to the servers of a URL.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::socket2::TcpKeepalive;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig, TcpConfig,
};
use syncguard_core::{CredentialsProvider, LockError};
use tokio::time::timeout;

use crate::addresses::{first_to_open, resolve};
use crate::config::RedisOptions;
use crate::connection_name::ConnectionName;
use crate::error::{self, Stage};
use crate::live::Live;
use crate::log_in::LogIn;
#[cfg(feature = "test-util")]
use crate::simulated::wire::Wire;
use crate::tls_probe;

/// Opens connections, the first and those in the place of lost ones.
pub(crate) struct Opener {
    config: Config,
    /// The number of sections of the layout.
    sections: usize,
    command_timeout: Duration,
    connect_timeout: Duration,
    name: Option<ConnectionName>,
    credentials: Option<CredentialsProvider>,
    /// Leads to a simulated server.
    #[cfg(feature = "test-util")]
    wire: Option<Arc<dyn Wire>>,
}

impl Opener {
    pub(crate) fn new(
        config: Config,
        sections: usize,
        options: &RedisOptions,
        name: Option<ConnectionName>,
    ) -> Self {
        let (command_timeout, connect_timeout) = (options.command_timeout, options.connect_timeout);
        Self {
            config,
            sections,
            command_timeout,
            connect_timeout,
            name,
            credentials: options.credentials.clone(),
            #[cfg(feature = "test-util")]
            wire: None,
        }
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn through(self, wire: Arc<dyn Wire>) -> Self {
        Self { wire: Some(wire), ..self }
    }

    #[cfg(feature = "test-util")]
    pub(crate) fn wire(&self) -> Option<&Arc<dyn Wire>> {
        self.wire.as_ref()
    }

    /// A client without a connection.
    #[cfg(feature = "test-util")]
    pub(crate) fn closed(&self, client: &Client) -> Live {
        let options = Live::options(self.command_timeout, false);
        let live = Live::new(client, &options, self.sections, None);
        match &self.wire {
            Some(wire) => live.through(Arc::clone(wire)),
            None => live,
        }
    }

    pub(crate) fn is_clustered(&self) -> bool {
        self.config.server.is_clustered()
    }

    pub(crate) fn command_timeout(&self) -> Duration {
        self.command_timeout
    }

    /// Opens a connection within the connect timeout. The server behind `last` was found to be the wrong one, so the
    /// servers after it come first. With `explain`, the error names a port of the wrong kind.
    pub(crate) async fn open_in_time(
        &self,
        last: Option<&Server>,
        explain: bool,
    ) -> Result<Live, LockError> {
        #[cfg(feature = "test-util")]
        let explain = explain && self.wire.is_none();
        let opening = async {
            if !explain {
                return self.open(last).await;
            }
            let (hosts, patience) = (self.config.server.hosts(), self.connect_timeout / 2);
            let tls = self.config.uses_tls();
            tls_probe::open_or_explain(hosts, tls, patience, self.open(last)).await
        };
        timeout(self.connect_timeout, opening)
            .await
            .unwrap_or_else(|_| Err(error::still_connecting()))
    }

    /// Opens a connection. The caller bounds the time. If this fails or is dropped, the tasks that were started end.
    pub(crate) async fn open(&self, last: Option<&Server>) -> Result<Live, LockError> {
        #[cfg(feature = "test-util")]
        if let Some(wire) = &self.wire {
            let wire = wire.reconnect().await.ok_or_else(error::not_connected)?;
            let client = Client::new(self.config.clone(), None, None, None);
            return Ok(self.closed(&client).through(wire));
        }
        let servers = resolve(&self.config.server.hosts()).await?;
        first_to_open(after(last, servers), |server| self.open_at(server)).await
    }

    async fn open_at(&self, server: Server) -> Result<Live, LockError> {
        let (client, log_in) = self.client_of(&server);
        let options = Live::options(self.command_timeout, false);
        let mut live = Live::new(&client, &options, self.sections, Some(server));
        // Not `init`: if its future is dropped, its task stays behind, and may connect and live for ever.
        // `wait_for_connect` is polled first, so that it misses no outcome.
        let start = async {
            if let Some(name) = self.name.clone() {
                live.own(name.set_always(&client, self.command_timeout));
            }
            live.own(client.connect());
        };
        let opened = tokio::join!(biased; client.wait_for_connect(), start).0;
        opened.map_err(|error| {
            let unprovided = log_in.and_then(|log_in| log_in.failure());
            unprovided.unwrap_or_else(|| error::from_driver(&error, Stage::Connecting))
        })?;
        Ok(live)
    }

    fn client_of(&self, server: &Server) -> (Client, Option<Arc<LogIn>>) {
        let mut config = self.config.clone();
        if let ServerConfig::Centralized { server: only } = &mut config.server {
            *only = server.clone();
        }
        if let ServerConfig::Sentinel { hosts, .. } | ServerConfig::Clustered { hosts, .. } =
            &mut config.server
        {
            *hosts = vec![server.clone()];
        }
        let connection = self.connection();
        let log_in = self.credentials.clone().map(|provider| {
            // The other half is for the log-in.
            Arc::new(LogIn::new(provider, &config, connection.internal_command_timeout / 2))
        });
        config.credential_provider = log_in.clone().map(|log_in| log_in as _);
        let performance = PerformanceConfig {
            default_command_timeout: self.command_timeout,
            ..PerformanceConfig::default()
        };
        let policy = config.server.is_clustered().then(reconnect_policy);
        (Client::new(config, Some(performance), Some(connection), policy), log_in)
    }

    fn connection(&self) -> ConnectionConfig {
        // A connection takes four round trips to open, so a tight command timeout would be too tight here.
        let timeout = self.command_timeout.max(Duration::from_secs(1));
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
}

/// On a cluster, fred replaces lost connections to single nodes by itself. Elsewhere a client ends with its
/// connection, and a [`Link`](crate::link::Link) opens the next one.
fn reconnect_policy() -> ReconnectPolicy {
    ReconnectPolicy::new_exponential(0, 20, 1000, 2)
}

/// The servers in their order, beginning behind the last.
fn after(last: Option<&Server>, mut servers: Vec<Server>) -> Vec<Server> {
    if let Some(position) = servers.iter().position(|server| Some(server) == last) {
        servers.rotate_left(position + 1);
    }
    servers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_was_the_wrong_one_comes_last() {
        let all = ["a", "b", "c"].map(|name| Server::new(name, 6379));
        let in_order = |order: [usize; 3]| order.map(|index| all[index].clone());
        assert_eq!(after(Some(&all[1]), all.to_vec()), in_order([2, 0, 1]));
        assert_eq!(after(Some(&Server::new("gone", 1)), all.to_vec()), all);
        assert_eq!(after(None, all.to_vec()), all);
    }
}
