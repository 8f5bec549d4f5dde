//! A probe that tells why no connection can be made to a member, for an error that names the mistake.
//!
//! gRPC shows only that the connection was cut. A member that misses the client's certificate says so after the handshake,
//! when the driver has written already. A plain client on a TLS port is cut off without an answer, and so is a TLS client on
//! a plain port. So the probe makes a connection of its own.

use std::io;
use std::time::Duration;

use rustls::Error;
use rustls::pki_types::ServerName;
use syncguard_core::LockError;
use syncguard_core::authoring::TlsFault;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

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
    let error = match (shaken, is_plain) {
        (Err(_), true) => return None,
        // A certificate that is refused here is one of TLS as well.
        (Ok(shaken), true) => {
            let fault = shaken.err().map(|error| fault(&error));
            let speaks_tls = fault.is_none_or(|fault| fault.is_some_and(|it| !it.is_no_tls()));
            return speaks_tls.then(|| LockError::invalid_argument(TLS));
        }
        // With TLS 1.3 the member looks at the client's certificate after the client's handshake.
        (Ok(Ok(mut stream)), false) => timeout(PATIENCE, stream.read_u8()).await.ok()?.err(),
        (Ok(Err(error)), false) => Some(error),
        (Err(_), false) => None,
    };
    match error.as_ref().and_then(fault) {
        Some(fault) if !fault.is_no_tls() => Some(fault.error()),
        None if !answers_in_plain_text(host, port).await => None,
        _ => Some(LockError::invalid_argument(NO_TLS)),
    }
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

const TLS: &str =
    "etcd speaks TLS on this port; does the URL want etcds:// in the place of etcd://?";
const NO_TLS: &str =
    "etcd speaks no TLS on this port; does the URL want etcd:// in the place of etcds://?";

fn fault(error: &io::Error) -> Option<&'static TlsFault> {
    let error = error.get_ref()?.downcast_ref::<Error>()?;
    TlsFault::find(&format!("{error:?}"))
}
