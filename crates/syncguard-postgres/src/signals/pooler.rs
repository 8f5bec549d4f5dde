//! Tells a server from a pooler in front of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::Client;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The number that the other side gave to the session. A server gives its process id, a pooler another number. The
/// driver shows it only in a request to cancel, whose last 16 bytes are their length, a code, this number and a
/// secret; the request goes nowhere.
pub(super) async fn session_number(client: &Client) -> Option<i32> {
    let mut request = Vec::new();
    client.cancel_token().cancel_query_raw(Recorder(&mut request), NoEncryption).await.ok()?;
    let number = request.last_chunk::<16>()?.get(8..12)?;
    Some(i32::from_be_bytes(number.try_into().ok()?))
}

/// Records what the driver sends, and answers yes.
struct Recorder<'a>(&'a mut Vec<u8>);

/// Encrypts nothing.
struct NoEncryption;

impl<'a> TlsConnect<Recorder<'a>> for NoEncryption {
    type Stream = Recorder<'a>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Recorder<'a>>>;

    fn connect(self, recorder: Recorder<'a>) -> Self::Future {
        std::future::ready(Ok(recorder))
    }
}

impl TlsStream for Recorder<'_> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Recorder<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // The driver only asks if the server has TLS. `S`: yes.
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Recorder<'_> {
    fn poll_write(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.get_mut().0.extend_from_slice(bytes);
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt as _, duplex};
    use tokio_postgres::config::SslMode;
    use tokio_postgres::{Config, NoTls};

    use super::session_number;

    #[tokio::test]
    async fn the_number_of_a_session_is_read() {
        // With `Prefer` the driver asks for TLS first, with `Disable` it does not.
        for mode in [SslMode::Prefer, SslMode::Disable] {
            for number in [1, 1 << 22, i32::MAX, 0, -1] {
                let (ours, mut theirs) = duplex(1024);
                // The greeting of a server that asks for no password.
                let mut greeting = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c".to_vec();
                greeting.extend(i32::to_be_bytes(number));
                greeting.extend(b"\x7f\x01\x02\x03Z\0\0\0\x05I");
                theirs.write_all(&greeting).await.unwrap();
                let mut config = Config::new();
                config.user("user").ssl_mode(mode);
                let (client, _connection) = config.connect_raw(ours, NoTls).await.unwrap();
                assert_eq!(session_number(&client).await, Some(number));
            }
        }
    }
}
