//! Who has opened a session: a server, or a pooler in front of it.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::CancelToken;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The highest number of a process, on Linux; elsewhere they are lower.
const HIGHEST_PROCESS: i32 = 1 << 22;

/// Whether the session has the number of a process, as a server gives it. PgBouncer and others give
/// random numbers of 32 bits, of which one in a thousand looks like one of a process.
pub(super) async fn is_of_a_server(token: &CancelToken) -> bool {
    process_of(token).await.is_some_and(|number| (1..=HIGHEST_PROCESS).contains(&number))
}

/// The number of the session, which is its process if a server has opened it. The driver tells it to the server alone, in the last 16 bytes that it
/// sends: their length, what they ask for, the number, and a secret.
pub(crate) async fn process_of(token: &CancelToken) -> Option<i32> {
    let mut said = Vec::new();
    token.cancel_query_raw(Tape(&mut said), Blank).await.ok()?;
    let number = said.last_chunk::<16>()?.get(8..12)?;
    Some(i32::from_be_bytes(number.try_into().ok()?))
}

/// Takes down what is said to a server, which agrees to everything.
struct Tape<'a>(&'a mut Vec<u8>);

/// Encrypts nothing.
struct Blank;

impl<'a> TlsConnect<Tape<'a>> for Blank {
    type Stream = Tape<'a>;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<Tape<'a>>>;

    fn connect(self, tape: Tape<'a>) -> Self::Future {
        std::future::ready(Ok(tape))
    }
}

impl TlsStream for Tape<'_> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl AsyncRead for Tape<'_> {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        // "Yes, there is TLS here": all that the driver ever asks.
        buffer.put_slice(b"S");
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for Tape<'_> {
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

    use super::{is_of_a_server, process_of};

    /// The greeting of a server that asks for no password and gives the session this number.
    fn greeting(number: i32) -> Vec<u8> {
        let mut said = b"R\0\0\0\x08\0\0\0\0K\0\0\0\x0c".to_vec();
        said.extend(number.to_be_bytes());
        said.extend(b"\x7f\x01\x02\x03Z\0\0\0\x05I");
        said
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
                assert_eq!(process_of(&token).await, Some(number));
                assert_eq!(is_of_a_server(&token).await, expected, "{number}");
            }
        }
    }
}
