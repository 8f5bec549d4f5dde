//! The addresses of the servers in a URL, and the order in which they are tried.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use fred::types::config::Server;
use futures_util::StreamExt as _;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use syncguard_core::LockError;
use tokio::time::sleep;

use crate::error;

/// How long an address may be silent before the next one is tried beside it.
const STAGGER: Duration = Duration::from_millis(250);

/// One server for each address of these hosts, in the order of the hosts. A host with one address stays a name, which
/// the driver resolves again; so does the path of a Unix socket.
///
/// fred tries the addresses of a name one after the other within one time limit, so it would never get past a silent
/// one.
pub(crate) async fn resolve(hosts: &[Server]) -> Result<Vec<Server>, LockError> {
    let resolved = join_all(hosts.iter().map(addresses_of)).await;
    let mut servers = Vec::new();
    for server in resolved.into_iter().flatten().flatten() {
        if !servers.contains(&server) {
            servers.push(server);
        }
    }
    if servers.is_empty() { Err(error::unknown_host()) } else { Ok(servers) }
}

async fn addresses_of(host: &Server) -> io::Result<Vec<Server>> {
    let name = host.host.trim_start_matches('[').trim_end_matches(']');
    // A Unix socket has no port.
    if host.port == 0 || name.parse::<IpAddr>().is_ok() {
        return Ok(vec![host.clone()]);
    }
    let found: Vec<SocketAddr> = tokio::net::lookup_host((name, host.port)).await?.collect();
    Ok(match found.as_slice() {
        [] => Vec::new(),
        [_] => vec![host.clone()],
        several => several.iter().map(|address| at(host, address.ip())).collect(),
    })
}

/// This address of a host. Its certificate is still one for the host's name.
fn at(host: &Server, address: IpAddr) -> Server {
    let text = match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    };
    #[cfg_attr(not(feature = "tls"), expect(unused_mut, reason = "the name is for TLS alone"))]
    let mut server = Server::new(text, host.port);
    #[cfg(feature = "tls")]
    {
        server.tls_server_name =
            Some(host.tls_server_name.clone().unwrap_or_else(|| host.host.clone()));
    }
    server
}

/// Opens a connection at the first server that gives one. Each is tried [`STAGGER`] after the one before it, or when
/// that one has failed; the tries that are too late are dropped.
pub(crate) async fn first_to_open<T, F>(
    servers: Vec<Server>,
    open: impl Fn(Server) -> F,
) -> Result<T, LockError>
where
    F: Future<Output = Result<T, LockError>>,
{
    let mut waiting = servers.into_iter();
    let mut tries: FuturesUnordered<F> = waiting.next().map(&open).into_iter().collect();
    let mut failure: Option<LockError> = None;
    loop {
        let ended = tokio::select! {
            biased;
            ended = tries.next() => ended,
            () = sleep(STAGGER), if waiting.len() > 0 => {
                tries.extend(waiting.next().map(&open));
                continue;
            }
        };
        match ended {
            Some(Ok(opened)) => return Ok(opened),
            Some(Err(error)) => {
                // A refusal that a person must mend tells more than a server that is away.
                if failure.as_ref().is_none_or(LockError::is_retryable) {
                    failure = Some(error);
                }
                tries.extend(waiting.next().map(&open));
            }
            None => return Err(failure.unwrap_or_else(error::unknown_host)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;

    use syncguard_core::ErrorCode;
    use tokio::time::Instant;

    use super::*;

    fn servers(count: u16) -> Vec<Server> {
        (1..=count).map(|port| Server::new("h", port)).collect()
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_costs_a_fraction_of_the_limit() {
        let started = Instant::now();
        let open = async |server: Server| match server.port {
            1 | 2 => pending().await,
            3 => Err(error::not_connected()),
            port => Ok(port),
        };
        assert_eq!(first_to_open(servers(5), open).await.unwrap(), 4);
        assert_eq!(started.elapsed(), 2 * STAGGER);
    }

    #[tokio::test(start_paused = true)]
    async fn a_refusal_that_a_person_must_mend_is_the_reason() {
        let open = async |server: Server| -> Result<(), _> {
            Err(match server.port {
                2 => LockError::new(ErrorCode::AuthFailed, "no"),
                _ => error::not_connected(),
            })
        };
        let error = first_to_open(servers(3), open).await.unwrap_err();
        assert_eq!(error.code(), ErrorCode::AuthFailed);
    }

    #[tokio::test]
    async fn a_host_with_several_addresses_is_tried_at_each() {
        let ips = [IpAddr::from([127, 0, 0, 1]), IpAddr::from([0, 0, 0, 0, 0, 0, 0, 1])];
        let servers = ips.map(|ip| at(&Server::new("name", 7), ip));
        assert_eq!(servers.each_ref().map(|server| &*server.host), ["127.0.0.1", "[::1]"]);
        #[cfg(feature = "tls")]
        assert!(servers.iter().all(|server| server.tls_server_name.as_deref() == Some("name")));
        for host in [Server::new("127.0.0.1", 7), Server::new("[::1]", 7), Server::new("/s", 0)] {
            assert_eq!(resolve(std::slice::from_ref(&host)).await.unwrap(), [host]);
        }
        let unknown = resolve(&[Server::new("no-such-host.invalid", 7)]).await.unwrap_err();
        assert!(unknown.message().contains("no address is known"), "{unknown}");
    }
}
