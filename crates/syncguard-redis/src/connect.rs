//! Opens connections to the servers of a URL.

use std::sync::Arc;
use std::time::Duration;

use fred::clients::Client;
use fred::interfaces::ClientLike;
use fred::socket2::TcpKeepalive;
use fred::types::config::{
    Config, ConnectionConfig, PerformanceConfig, ReconnectPolicy, Server, ServerConfig, TcpConfig,
};
use syncguard_core::{CredentialsProvider, LockError};

use crate::addresses::{first_to_open, resolve};
use crate::config::RedisOptions;
use crate::connection_name::ConnectionName;
use crate::driver::{lost, once};
use crate::error::{self, Stage};
use crate::fred_client::FredClient;
use crate::log_in::LogIn;
use crate::probe;
use crate::service::{Opening, Servers, Service};

/// The servers of a URL.
pub(crate) struct UrlServers {
    config: Config,
    command_timeout: Duration,
    connect_timeout: Duration,
    name: Option<ConnectionName>,
    credentials: Option<CredentialsProvider>,
}

impl Servers for UrlServers {
    /// If this fails or is dropped, the tasks that were started end.
    fn open<'a>(
        &'a self,
        last: Option<&'a Server>,
        explain: bool,
    ) -> Opening<'a, Box<dyn Service>> {
        Box::pin(async move {
            let hosts = self.config.server.hosts();
            let opening = async {
                let servers = resolve(&hosts).await?;
                first_to_open(after(last, servers), |server| self.open_at(server)).await
            };
            let client = if explain {
                let (tls, patience) = (self.config.uses_tls(), self.connect_timeout / 2);
                probe::open_or_explain(hosts.clone(), tls, patience, opening).await
            } else {
                opening.await
            };
            Ok(Box::new(client?) as _)
        })
    }
}

impl UrlServers {
    pub(crate) fn new(
        config: Config,
        options: &RedisOptions,
        name: Option<ConnectionName>,
    ) -> Self {
        let (command_timeout, connect_timeout) = (options.command_timeout, options.connect_timeout);
        let credentials = options.credentials.clone();
        Self { config, command_timeout, connect_timeout, name, credentials }
    }

    async fn open_at(&self, server: Server) -> Result<FredClient, LockError> {
        let name = self.name.as_ref();
        match self.open_named(&server, name).await? {
            // A proxy may end the connection at its name.
            Err(_) if name.is_some() => self.open_named(&server, None).await?,
            opened => opened,
        }
    }

    /// Connects. The inner error is that of a connection which was made and then gave no answer: fred takes the end of a
    /// connection for the answer to its own first commands, and says that it is connected.
    async fn open_named(
        &self,
        server: &Server,
        name: Option<&ConnectionName>,
    ) -> Result<Result<FredClient, LockError>, LockError> {
        let (client, log_in) = self.client_of(server);
        let mut opened = FredClient::of_url(&client, self.command_timeout, server.clone());
        // Not `init`: if its future is dropped, its task stays behind, and may connect and live for ever.
        // `wait_for_connect` is polled first, so that it misses no outcome.
        let start = async {
            if let Some(name) = name.filter(|_| client.is_clustered()) {
                opened.own(name.clone().set_always(&client, self.command_timeout));
            }
            opened.own(client.connect());
        };
        let connected = tokio::join!(biased; client.wait_for_connect(), start).0;
        connected.map_err(|error| {
            let unprovided = log_in.and_then(|log_in| log_in.failure());
            unprovided.unwrap_or_else(|| error::from_driver(&error, Stage::Connecting))
        })?;
        if client.is_clustered() {
            return Ok(Ok(opened));
        }
        let asking = async {
            match name {
                Some(name) => name.set(&client, None, self.command_timeout).await,
                None => lost(&once(&client, "PING", Vec::new(), None, self.command_timeout).await),
            }
        };
        let lost = tokio::select! {
            biased;
            lost = asking => lost,
            // fred may forget a command that comes while its client ends.
            () = opened.ended() => Some(error::not_connected()),
        };
        Ok(lost.map_or(Ok(opened), Err))
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
        // A connection takes four round trips to open, so a tight operation timeout would be too tight here.
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
