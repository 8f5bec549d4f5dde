//! The addresses that a configuration leads to.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::Config;
use tokio_postgres::config::Host;

/// Looks the addresses of a name up.
pub(super) type LookUp = dyn Fn(String, u16) -> LookingUp + Sync;

pub(super) type LookingUp = Pin<Box<dyn Future<Output = io::Result<Vec<SocketAddr>>> + Send>>;

/// Returns a configuration for each address of each host.
pub(super) async fn addresses(config: &Config, limit: Duration, look_up: &LookUp) -> Vec<Config> {
    if !is_complete(config) {
        // The driver says what is wrong.
        return vec![config.clone()];
    }
    let mut addresses = Vec::new();
    for position in 0..hosts(config) {
        addresses.extend(addresses_of(config, position, limit, look_up).await);
    }
    addresses
}

/// How many hosts the configuration names.
pub(super) fn hosts(config: &Config) -> usize {
    config.get_hosts().len().max(config.get_hostaddrs().len())
}

/// True if each host has its address and its port.
fn is_complete(config: &Config) -> bool {
    let (hosts, names) = (hosts(config), config.get_hosts().len());
    let fits = |length: usize, fewest| length <= fewest || length == hosts;
    hosts > 0
        && fits(names, 0)
        && fits(config.get_hostaddrs().len(), 0)
        && fits(config.get_ports().len(), 1)
}

/// Returns a configuration for each address of a host.
async fn addresses_of(
    config: &Config,
    position: usize,
    limit: Duration,
    look_up: &LookUp,
) -> Vec<Config> {
    let host = config.get_hosts().get(position);
    let ports = config.get_ports();
    let port = ports.get(position).or_else(|| ports.first()).copied();
    let address = |ip: Option<IpAddr>| {
        let mut address = without_hosts(config);
        match host {
            Some(Host::Tcp(name)) => {
                address.host(name);
            }
            #[cfg(unix)]
            Some(Host::Unix(folder)) => {
                address.host_path(folder);
            }
            None => {}
        }
        ip.map(|ip| address.hostaddr(ip));
        port.map(|port| address.port(port));
        address
    };
    let known = config.get_hostaddrs().get(position).copied();
    if let (Some(Host::Tcp(name)), None) = (host, known) {
        // A name server that is silent must not keep us from the other hosts.
        let bound = limit / 4;
        if let Ok(Ok(found)) = timeout(bound, look_up(name.clone(), port.unwrap_or(5432))).await
            && !found.is_empty()
        {
            return found.iter().map(|found| address(Some(found.ip()))).collect();
        }
    }
    // The driver looks the name up again, and says what is wrong with it.
    vec![address(known)]
}

/// Copies all that a URL or a program can set but for the hosts: the driver cannot take hosts back.
pub(super) fn without_hosts(config: &Config) -> Config {
    let mut copy = Config::new();
    config.get_user().map(|user| copy.user(user));
    config.get_password().map(|password| copy.password(password));
    config.get_dbname().map(|name| copy.dbname(name));
    config.get_options().map(|options| copy.options(options));
    config.get_application_name().map(|name| copy.application_name(name));
    config.get_connect_timeout().map(|limit| copy.connect_timeout(*limit));
    config.get_tcp_user_timeout().map(|limit| copy.tcp_user_timeout(*limit));
    config.get_keepalives_interval().map(|interval| copy.keepalives_interval(interval));
    config.get_keepalives_retries().map(|retries| copy.keepalives_retries(retries));
    copy.keepalives(config.get_keepalives())
        .keepalives_idle(config.get_keepalives_idle())
        .ssl_mode(config.get_ssl_mode())
        .ssl_negotiation(config.get_ssl_negotiation())
        .channel_binding(config.get_channel_binding())
        .target_session_attrs(config.get_target_session_attrs())
        .load_balance_hosts(config.get_load_balance_hosts());
    copy
}
