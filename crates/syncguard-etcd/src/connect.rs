//! Makes connections to the members: channels for gRPC, and single requests over HTTP/1.1.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::LockError;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tonic::transport::{Channel, Endpoint};

use crate::config::EtcdOptions;

/// Makes channels to the members of a cluster.
pub(crate) struct Connector {
    members: Vec<Member>,
    tls: Option<Arc<Tls>>,
}

struct Member {
    host: Box<str>,
    port: u16,
    endpoint: Endpoint,
}

#[cfg(feature = "tls")]
type Tls = rustls::ClientConfig;

/// Without the feature there is none.
#[cfg(not(feature = "tls"))]
enum Tls {}

impl Connector {
    /// # Errors
    ///
    /// `InvalidArgument` without members, outside a tokio runtime, and for certificates that cannot be used.
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, LockError> {
        let member = |(host, port): &(String, u16)| -> Result<Member, LockError> {
            let endpoint = Endpoint::from_shared(format!("{}://{host}:{port}", options.scheme));
            let endpoint = endpoint.map_err(|_| LockError::invalid_argument("a bad host name"))?;
            let endpoint = with_tls(with_limits(endpoint, options.connect_timeout), options)?;
            Ok(Member { host: host.as_str().into(), port: *port, endpoint })
        };
        let members = options.members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() {
            return Err(LockError::invalid_argument("the URL names no member of an etcd cluster"));
        }
        Ok(Self { members, tls: tls(options)? })
    }

    pub(crate) fn members(&self) -> usize {
        self.members.len()
    }

    /// Makes a channel, which connects with its first call and again after the connection is lost. Its tasks belong to the
    /// runtime of this call.
    pub(crate) fn channel(&self, member: usize) -> Result<Channel, LockError> {
        if Handle::try_current().is_err() {
            return Err(LockError::invalid_argument("an etcd backend needs a tokio runtime"));
        }
        let member = self.members.get(member);
        let member = member.ok_or_else(|| LockError::internal("there is no such member"))?;
        Ok(member.endpoint.connect_lazy())
    }

    /// The answer to `GET path` over HTTP, with its head. Members answer it on the address for clients, unless they are
    /// configured otherwise.
    pub(crate) async fn get(&self, member: usize, path: &str) -> Option<String> {
        let Member { host, port, .. } = self.members.get(member)?;
        let stream = TcpStream::connect((host.trim_matches(['[', ']']), *port)).await.ok()?;
        // By HTTP/1.0 the server sends the body in one piece and closes the connection.
        let request = format!("GET {path} HTTP/1.0\r\nHost: {host}:{port}\r\n\r\n");
        match &self.tls {
            None => exchange(stream, &request).await,
            #[cfg(feature = "tls")]
            Some(config) => {
                let name = rustls::pki_types::ServerName::try_from(host.trim_matches(['[', ']']));
                let name = name.ok()?.to_owned();
                let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
                exchange(connector.connect(name, stream).await.ok()?, &request).await
            }
            #[cfg(not(feature = "tls"))]
            Some(none) => match **none {},
        }
    }
}

/// Metrics have some hundred kilobytes.
const LONGEST_ANSWER: u64 = 4 << 20;

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> Option<String> {
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    // A server that closes without the end of TLS has answered all the same.
    let _ = stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await;
    String::from_utf8(answer).ok().filter(|answer| answer.starts_with("HTTP/1."))
}

fn with_limits(endpoint: Endpoint, connect_timeout: Duration) -> Endpoint {
    endpoint
        .connect_timeout(connect_timeout / 2)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        // etcd closes a connection with a ping within 5 s of the last one, or a ping while no call is under way.
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(false)
}

#[cfg(feature = "tls")]
fn with_tls(endpoint: Endpoint, options: &EtcdOptions) -> Result<Endpoint, LockError> {
    if !options.has_tls() {
        return Ok(endpoint);
    }
    let roots = syncguard_core::authoring::tls::roots(&options.root_certificates)?;
    let tls = tonic::transport::ClientTlsConfig::new()
        .trust_anchors(roots.roots)
        .timeout(options.connect_timeout / 2);
    let endpoint = endpoint.tls_config(tls);
    endpoint.map_err(|error| LockError::internal("TLS cannot be set up").with_source(&error))
}

#[cfg(feature = "tls")]
fn tls(options: &EtcdOptions) -> Result<Option<Arc<Tls>>, LockError> {
    let config = || syncguard_core::authoring::tls::client_config(&options.root_certificates);
    options.has_tls().then(config).transpose().map(|config| config.map(Arc::new))
}

#[cfg(not(feature = "tls"))]
fn with_tls(endpoint: Endpoint, options: &EtcdOptions) -> Result<Endpoint, LockError> {
    if options.has_tls() { Err(no_tls()) } else { Ok(endpoint) }
}

#[cfg(not(feature = "tls"))]
#[expect(clippy::unnecessary_wraps, reason = "with the feature it reads certificates")]
fn tls(_: &EtcdOptions) -> Result<Option<Arc<Tls>>, LockError> {
    Ok(None)
}

#[cfg(not(feature = "tls"))]
fn no_tls() -> LockError {
    LockError::invalid_argument(
        "an etcds URL needs the feature `tls` of syncguard-etcd or syncguard",
    )
}

#[cfg(test)]
mod tests {
    use crate::{EtcdBackend, EtcdOptions};

    /// No server listens on this port.
    #[tokio::test]
    async fn connecting_waits_for_nobody() {
        let connecting = std::pin::pin!(EtcdBackend::connect("etcd://127.0.0.1:1"));
        let waker = std::task::Waker::noop();
        let polled = connecting.poll(&mut std::task::Context::from_waker(waker));
        assert!(matches!(polled, std::task::Poll::Ready(Ok(_))), "{polled:?}");
    }

    /// tonic and rustls panic or fail here if they find no crypto provider, or two.
    #[cfg(feature = "tls")]
    #[tokio::test]
    async fn tls_can_be_set_up() {
        assert!(EtcdBackend::connect("etcds://localhost,[::1]:1/locks").await.is_ok());
        let bad = EtcdOptions::new().with_root_certificate(b"no certificate".to_vec());
        assert!(EtcdBackend::connect_with("etcds://localhost", bad).await.is_err());
    }

    #[cfg(not(feature = "tls"))]
    #[tokio::test]
    async fn tls_needs_its_feature() {
        let refused = EtcdBackend::connect_with("etcds://localhost", EtcdOptions::new()).await;
        assert!(refused.unwrap_err().message().contains("feature `tls`"));
    }
}
