//! A probe that tells why no connection can be made to a member, for an error that names the mistake.
//!
//! gRPC shows only that the connection was cut. A member that misses the client's certificate says so after the handshake,
//! when the driver has written already. A plain client on a TLS port is cut off without an answer, and so is a TLS client on
//! a plain port. So the probe makes a connection of its own.

use std::io;
use std::time::Duration;

use rustls::pki_types::ServerName;
use rustls::{AlertDescription as Alert, CertificateError as Certificate, Error};
use syncguard_core::{ErrorCode, LockError};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use ErrorCode::{AuthFailed, InvalidArgument};

/// The longest time for each answer of a member.
const PATIENCE: Duration = Duration::from_millis(500);

/// The reason why a member cannot be talked to, in plain text or over TLS, if the probe finds one.
pub(crate) async fn explain(
    host: &str,
    port: u16,
    tls: &TlsConnector,
    is_plain: bool,
) -> Option<LockError> {
    let shaken = timeout(PATIENCE, shake_hands(host, port, tls)).await;
    let (code, message) = if is_plain {
        let speaks = shaken.ok()?.map_or_else(|error| refusal(&error), |_| Some(TLS));
        speaks.filter(|speaks| *speaks != NO_TLS).map(|_| TLS)?
    } else {
        let error = match shaken {
            // With TLS 1.3 the member looks at the client's certificate after the client's handshake.
            Ok(Ok(mut stream)) => timeout(PATIENCE, stream.read_u8()).await.ok()?.err(),
            Ok(Err(error)) => Some(error),
            Err(_) => None,
        };
        match error.as_ref().and_then(refusal) {
            Some(refusal) => refusal,
            None => answers_in_plain_text(host, port).await.then_some(NO_TLS)?,
        }
    };
    Some(LockError::new(code, message))
}

async fn shake_hands(
    host: &str,
    port: u16,
    tls: &TlsConnector,
) -> io::Result<TlsStream<TcpStream>> {
    let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
    tls.connect(name, TcpStream::connect((host, port)).await?).await
}

async fn answers_in_plain_text(host: &str, port: u16) -> bool {
    let asking = async {
        let mut stream = TcpStream::connect((host, port)).await?;
        stream.write_all(b"GET /version HTTP/1.0\r\n\r\n").await?;
        let mut answer = [0; 7];
        stream.read_exact(&mut answer).await?;
        io::Result::Ok(answer == *b"HTTP/1.")
    };
    matches!(timeout(PATIENCE, asking).await, Ok(Ok(true)))
}

type Refusal = (ErrorCode, &'static str);

const TLS: Refusal = (
    InvalidArgument,
    "etcd speaks TLS on this port; does the URL want etcds:// in the place of etcd://?",
);
const NO_TLS: Refusal = (
    InvalidArgument,
    "etcd speaks no TLS on this port; does the URL want etcd:// in the place of etcds://?",
);

/// The table of what rustls says.
fn refusal(error: &io::Error) -> Option<Refusal> {
    const UNTRUSTED: &str = "the certificate of etcd is not signed by an authority that is trusted here; sslrootcert \
                             in the URL names a file of those to trust";
    const WANTS_ONE: &str = "etcd wants a client certificate (--client-cert-auth), which this library cannot show; \
                             users with passwords need none";
    Some(match error.get_ref()?.downcast_ref::<Error>()? {
        Error::InvalidCertificate(Certificate::Expired | Certificate::ExpiredContext { .. }) => {
            (AuthFailed, "the certificate of etcd has expired, or this machine's clock is wrong")
        }
        Error::InvalidCertificate(
            Certificate::NotValidYet | Certificate::NotValidYetContext { .. },
        ) => (
            AuthFailed,
            "the certificate of etcd is not valid yet, or this machine's clock is wrong",
        ),
        Error::InvalidCertificate(
            Certificate::NotValidForName | Certificate::NotValidForNameContext { .. },
        ) => (AuthFailed, "the certificate of etcd is for other names than the host of the URL"),
        Error::InvalidCertificate(Certificate::UnknownIssuer | Certificate::BadSignature) => {
            (AuthFailed, UNTRUSTED)
        }
        Error::InvalidCertificate(_) => (
            AuthFailed,
            "the certificate of etcd cannot be used, so sslrootcert in the URL may name another one than etcd shows",
        ),
        Error::NoCertificatesPresented => (AuthFailed, "etcd showed no certificate"),
        Error::AlertReceived(
            Alert::CertificateRequired
            | Alert::BadCertificate
            | Alert::UnknownCA
            | Alert::AccessDenied
            // TLS 1.2, where the client's certificate is missing.
            | Alert::HandshakeFailure,
        ) => (AuthFailed, WANTS_ONE),
        Error::AlertReceived(Alert::ProtocolVersion | Alert::InsufficientSecurity)
        | Error::PeerIncompatible(_) => (
            InvalidArgument,
            "etcd and this client share no TLS version or no cipher; TLS 1.2 and 1.3 are supported",
        ),
        Error::InvalidMessage(_) => NO_TLS,
        _ => return None,
    })
}
