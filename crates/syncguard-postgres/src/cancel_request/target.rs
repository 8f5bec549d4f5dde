//! Where requests go: to each address that a pool may have connected to. A server that does not have
//! the session ignores them.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use tokio::net::lookup_host;
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Config};

use super::address::Address;
use super::request::request;
use super::stream::CancelStream;
use super::{Delivery, LONGEST_SEND};

/// What a pool connects to.
pub(super) struct Targets(Vec<Target>);

struct Target {
    /// Whose name the server's certificate has to show.
    name: String,
    place: Place,
}

enum Place {
    Named(String, u16),
    At(Address),
}

impl Targets {
    /// Reads a configuration as the driver does.
    pub(super) fn new(config: &Config) -> Self {
        let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
        let ports = config.get_ports();
        let target = |index| {
            let port = ports.get(index).or(ports.first()).copied().unwrap_or(5432);
            Target::new(hosts.get(index), addresses.get(index), port)
        };
        Self((0..hosts.len().max(addresses.len())).filter_map(target).collect())
    }

    /// One request to each of them at once. The outcome is the one that leaves most open.
    pub(super) async fn send<T>(self: Arc<Self>, token: CancelToken, tls: T) -> Delivery
    where
        T: MakeTlsConnect<CancelStream> + Clone + Send + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<CancelStream>>::Future: Send,
    {
        let mut requests = JoinSet::new();
        for target in &self.0 {
            let addresses = timeout(LONGEST_SEND, target.place.addresses()).await;
            for address in addresses.ok().and_then(Result::ok).unwrap_or_default() {
                requests.spawn(request(address, target.name.clone(), token.clone(), tls.clone()));
            }
        }
        let mut outcome = Delivery::Unreachable;
        while let Some(Ok(other)) = requests.join_next().await {
            outcome = outcome.max(other);
        }
        outcome
    }
}

impl Target {
    fn new(host: Option<&Host>, address: Option<&IpAddr>, port: u16) -> Option<Self> {
        let name = match host {
            Some(Host::Tcp(name)) => name.clone(),
            _ => String::new(),
        };
        let place = match (address, host) {
            (Some(address), _) => Place::At(Address::Tcp(SocketAddr::new(*address, port))),
            (None, Some(Host::Tcp(name))) => Place::Named(name.clone(), port),
            #[cfg(unix)]
            (None, Some(Host::Unix(folder))) => {
                Place::At(Address::Unix(folder.join(format!(".s.PGSQL.{port}"))))
            }
            (None, _) => return None,
        };
        Some(Self { name, place })
    }
}

impl Place {
    async fn addresses(&self) -> io::Result<Vec<Address>> {
        Ok(match self {
            Self::Named(name, port) => {
                lookup_host((name.as_str(), *port)).await?.map(Address::Tcp).collect()
            }
            Self::At(address) => vec![address.clone()],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::{Address, Place, Targets};

    /// Names and places as texts.
    fn targets(config: &str) -> Vec<String> {
        let Targets(targets) = Targets::new(&config.parse().unwrap());
        let text = |place: &Place| match place {
            Place::Named(name, port) => format!("{name}:{port}"),
            Place::At(Address::Tcp(address)) => address.to_string(),
            #[cfg(unix)]
            Place::At(Address::Unix(path)) => path.display().to_string(),
        };
        targets.iter().map(|target| format!("{} {}", target.name, text(&target.place))).collect()
    }

    #[test]
    fn all_hosts_are_found_where_the_driver_looks() {
        let cases: [(&str, &[&str]); 6] = [
            ("host=a", &["a a:5432"]),
            ("host=a,b port=1", &["a a:1", "b b:1"]),
            ("host=a,b port=1,2", &["a a:1", "b b:2"]),
            ("host=a hostaddr=10.0.0.1", &["a 10.0.0.1:5432"]),
            ("hostaddr=10.0.0.1,::1 port=7", &[" 10.0.0.1:7", " [::1]:7"]),
            ("user=nobody", &[]),
        ];
        for (config, expected) in cases {
            assert_eq!(targets(config), expected, "{config}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn a_folder_has_a_socket_for_each_port() {
        assert_eq!(targets("host=/run/pg port=7"), [" /run/pg/.s.PGSQL.7"]);
    }
}
