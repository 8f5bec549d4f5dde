//! Makes connections to the members: channels for gRPC, and single requests over HTTP/1.1.

use std::sync::Arc;
use std::time::Duration;

use syncguard_core::LockError;
use syncguard_core::authoring::SentAt;
#[cfg(feature = "tls")]
use syncguard_core::authoring::tls::TlsOptions;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tonic::transport::Endpoint;

use crate::config::EtcdOptions;
use crate::service::{Calling, Cluster, Service};
#[cfg(feature = "tls")]
use crate::{tls_channel, tls_probe};

/// Makes channels to the members of a cluster.
pub(crate) struct Connector {
    members: Vec<Member>,
    /// Of all connections, which read replaced files anew.
    #[cfg(feature = "tls")]
    tls: Option<rustls::ClientConfig>,
}

struct Member {
    host: String,
    port: u16,
    endpoint: Endpoint,
}

impl Connector {
    /// # Errors
    ///
    /// `InvalidArgument` without members, for certificates that cannot be used, and for TLS without the feature.
    pub(crate) fn new(options: &EtcdOptions) -> Result<Self, LockError> {
        #[cfg(not(feature = "tls"))]
        if options.has_tls() {
            return Err(LockError::invalid_argument(
                "an etcds URL needs the feature `tls` of syncguard-etcd or syncguard",
            ));
        }
        let member = |(host, port): &(String, u16)| -> Result<Member, LockError> {
            Ok(Member {
                endpoint: endpoint(host, *port, options)?,
                host: host.clone(),
                port: *port,
            })
        };
        let members = options.members.iter().map(member).collect::<Result<Vec<_>, _>>()?;
        if members.is_empty() {
            return Err(LockError::invalid_argument("the URL names no member of an etcd cluster"));
        }
        Ok(Self {
            members,
            #[cfg(feature = "tls")]
            tls: options.has_tls().then(|| options.tls.client_config()).transpose()?,
        })
    }
}

#[cfg(feature = "tls")]
impl Connector {
    fn tls_connector(&self) -> Option<tokio_rustls::TlsConnector> {
        self.tls.clone().map(|config| Arc::new(config).into())
    }
}

impl Member {
    /// The host without the brackets of IPv6.
    fn name(&self) -> &str {
        self.host.trim_matches(['[', ']'])
    }
}

impl Cluster for Connector {
    fn members(&self) -> usize {
        self.members.len()
    }

    /// Makes a channel, which connects with its first call and again after the connection is lost. Its tasks belong to the
    /// runtime of this call.
    fn connect(&self, member: usize) -> Result<Arc<dyn Service>, LockError> {
        if Handle::try_current().is_err() {
            return Err(LockError::invalid_argument("an etcd backend needs a tokio runtime"));
        }
        let member = self.members.get(member);
        let member = member.ok_or_else(|| LockError::internal("there is no such member"))?;
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            let name = member.name().to_owned().try_into().map_err(|_| bad_host())?;
            return Ok(Arc::new(tls_channel::open(&member.endpoint, config.clone(), name)));
        }
        Ok(Arc::new(member.endpoint.connect_lazy()))
    }

    fn name(&self, member: usize) -> String {
        let member = self.members.get(member);
        member.map(|member| format!("{}:{}", member.host, member.port)).unwrap_or_default()
    }

    /// Members answer it on the address for clients, unless they are configured otherwise.
    fn get(&self, member: usize, request: &'static str) -> Calling<Option<(SentAt, String)>> {
        let member = self.members.get(member).map(|member| {
            (member.name().to_owned(), format!("{}:{}", member.host, member.port), member.port)
        });
        #[cfg(feature = "tls")]
        let tls = self.tls_connector();
        Box::pin(async move {
            let (name, authority, port) = member?;
            let stream = TcpStream::connect((name.as_str(), port)).await.ok()?;
            // By HTTP/1.0 the server sends the body in one piece and closes the connection.
            let request =
                format!("{request} HTTP/1.0\r\nHost: {authority}\r\nContent-Length: 2\r\n\r\n{{}}");
            #[cfg(feature = "tls")]
            if let Some(tls) = tls {
                let name = name.try_into().ok()?;
                return exchange(tls.connect(name, stream).await.ok()?, &request).await;
            }
            exchange(stream, &request).await
        })
    }

    #[cfg(feature = "tls")]
    fn explain(&self, member: usize) -> Calling<Option<LockError>> {
        let member = self.members.get(member).map(|member| (member.name().to_owned(), member.port));
        let tls = self.tls_connector();
        Box::pin(async move {
            let ((name, port), is_plain) = (member?, tls.is_none());
            let any = || Some(Arc::new(TlsOptions::default().client_config().ok()?).into());
            let tls = tls.or_else(any)?;
            tls_probe::explain(&name, port, &tls, is_plain).await
        })
    }
}

/// Metrics have some hundred kilobytes.
const LONGEST_ANSWER: u64 = 4 << 20;

async fn exchange(
    mut stream: impl AsyncRead + AsyncWrite + Unpin,
    request: &str,
) -> Option<(SentAt, String)> {
    let sent = SentAt::now();
    stream.write_all(request.as_bytes()).await.ok()?;
    let mut answer = Vec::new();
    // A server that closes without the end of TLS has answered all the same.
    let _ = stream.take(LONGEST_ANSWER).read_to_end(&mut answer).await;
    let answer = String::from_utf8(answer).ok().filter(|answer| answer.starts_with("HTTP/1."));
    Some((sent, answer?))
}

fn bad_host() -> LockError {
    LockError::invalid_argument("a bad host name")
}

fn endpoint(host: &str, port: u16, options: &EtcdOptions) -> Result<Endpoint, LockError> {
    let endpoint = Endpoint::from_shared(format!("{}://{host}:{port}", options.scheme))
        .map_err(|_| bad_host())?
        .connect_timeout(options.common.connect_timeout / 2)
        .tcp_nodelay(true)
        .tcp_keepalive(Some(Duration::from_secs(30)))
        // etcd closes a connection with a ping within 5 s of the last one, or a ping while no call is under way.
        .http2_keep_alive_interval(Duration::from_secs(10))
        .keep_alive_timeout(Duration::from_secs(5))
        .keep_alive_while_idle(false);
    Ok(endpoint)
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
