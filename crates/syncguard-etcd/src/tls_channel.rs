//! TLS for the channels of gRPC. tonic's own keeps the certificates of its beginning, also when it connects again.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tonic::ConnectError;
use tonic::codegen::Service;
use tonic::codegen::http::Uri;
use tonic::transport::{Channel, Endpoint};

const HTTP_2: &[u8] = b"h2";

/// Opens connections with TLS to one member.
struct Connector {
    tcp: HttpConnector,
    tls: TlsConnector,
    name: ServerName<'static>,
    limit: Option<Duration>,
}

/// A channel that connects with its first call. TCP and TLS have the endpoint's limit each.
pub(crate) fn open(
    endpoint: &Endpoint,
    mut config: ClientConfig,
    name: ServerName<'static>,
) -> Channel {
    let limit = endpoint.get_connect_timeout();
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(endpoint.get_tcp_nodelay());
    tcp.set_keepalive(endpoint.get_tcp_keepalive());
    tcp.set_connect_timeout(limit);
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    let tls = Arc::new(config).into();
    // Not `connect_with_connector_lazy`, which has one limit for both.
    Channel::new(Connector { tcp, tls, name, limit }, endpoint.clone())
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.tcp.poll_ready(context).map_err(|error| ConnectError(error.into()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let (connecting, tls) = (self.tcp.call(uri), self.tls.clone());
        let (name, limit) = (self.name.clone(), self.limit);
        Box::pin(async move {
            let tcp = connecting.await.map_err(|error| ConnectError(error.into()))?.into_inner();
            let shaken = timeout(limit.unwrap_or(Duration::MAX), tls.connect(name, tcp)).await;
            let shaken = shaken.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()));
            let stream = shaken.map_err(|error| ConnectError(error.into()))?;
            if stream.get_ref().1.alpn_protocol() != Some(HTTP_2) {
                return Err(ConnectError("the server does not speak HTTP/2".into()));
            }
            Ok(TokioIo::new(stream))
        })
    }
}
