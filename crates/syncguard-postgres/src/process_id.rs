//! The process id of a session, which tells a server from a pooler in front of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The highest process id, on Linux; other systems have lower ones.
const HIGHEST_PROCESS: i32 = 1 << 22;

/// True if the session has a process id, as a server gives it. PgBouncer and other poolers give random numbers
/// of 32 bits, of which one in a thousand looks like a process id.
pub(crate) async fn is_of_a_server(token: &CancelToken) -> bool {
    process_id(token).await.is_some_and(|id| (1..=HIGHEST_PROCESS).contains(&id))
}

/// The process id of the session if a server opened it, else the number that a pooler gave. The driver shows it
/// only in a request to cancel, whose last 16 bytes are their length, a code, this number and a secret.
pub(crate) async fn process_id(token: &CancelToken) -> Option<i32> {
    let mut request = Vec::new();
    token.cancel_query_raw(Recorder(&mut request), NoEncryption).await.ok()?;
    let id = request.last_chunk::<16>()?.get(8..12)?;
    Some(i32::from_be_bytes(id.try_into().ok()?))
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

    use super::{is_of_a_server, process_id};

    /// The greeting of a server that asks for no password and gives the session this number.
    fn greeting(number: i32) -> Vec<u8> {
        let mut bytes = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c".to_vec();
        bytes.extend(number.to_be_bytes());
        bytes.extend(b"\x7f\x01\x02\x03Z\0\0\0\x05I");
        bytes
    }

    #[tokio::test]
    async fn processes_are_told_from_random_numbers() {
        let cases = [
            (1, true),
            (4242, true),
            (1 << 22, true),
            ((1 << 22) + 1, false),
            (i32::MAX, false),
            (0, false),
            (-1, false),
        ];
        // With `Prefer` the driver asks for TLS first, with `Disable` it does not.
        for mode in [SslMode::Prefer, SslMode::Disable] {
            for (number, expected) in cases {
                let (ours, mut theirs) = duplex(1024);
                theirs.write_all(&greeting(number)).await.unwrap();
                let mut config = Config::new();
                config.user("user").ssl_mode(mode);
                let (client, _connection) = config.connect_raw(ours, NoTls).await.unwrap();
                let token = client.cancel_token();
                assert_eq!(process_id(&token).await, Some(number));
                assert_eq!(is_of_a_server(&token).await, expected, "{number}");
            }
        }
    }
}
