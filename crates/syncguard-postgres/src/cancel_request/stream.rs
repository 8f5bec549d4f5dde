//! Connections that stay open until the other side closes them.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

/// The connection that a cancel request goes over, which a TLS connector encrypts: see
/// [`with_cancel_requests`](crate::PostgresOptions::with_cancel_requests).
///
/// `poll_shutdown` waits until the server closes it.
pub struct CancelStream {
    socket: Socket,
    sent: Sent,
}

/// Whether a request has been written.
#[derive(Clone, Debug, Default)]
pub(super) struct Sent(Arc<AtomicBool>);

pub(super) enum Socket {
    Tcp(TcpStream),
    #[cfg(unix)]
    Unix(UnixStream),
}

impl Sent {
    pub(super) fn get(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn set(&self) {
        self.0.store(true, Ordering::Release);
    }
}

impl CancelStream {
    pub(super) fn new(socket: Socket, sent: Sent) -> Self {
        Self { socket, sent }
    }
}

impl fmt::Debug for CancelStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelStream")
    }
}

impl AsyncRead for CancelStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_read(context, buffer),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl AsyncWrite for CancelStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_write(context, buffer),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_write(context, buffer),
        }
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match &mut self.socket {
            Socket::Tcp(socket) => Pin::new(socket).poll_flush(context),
            #[cfg(unix)]
            Socket::Unix(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sent.set();
        poll_closed(self, context)
    }
}

/// Reads until the other side has closed the connection, in whatever way.
fn poll_closed(
    mut stream: Pin<&mut impl AsyncRead>,
    context: &mut Context<'_>,
) -> Poll<io::Result<()>> {
    loop {
        let mut bytes = [0; 64];
        let mut buffer = ReadBuf::new(&mut bytes);
        let read = ready!(stream.as_mut().poll_read(context, &mut buffer));
        if read.is_err() || buffer.filled().is_empty() {
            return Poll::Ready(Ok(()));
        }
    }
}

/// Makes another connector's streams wait for their end too, before anything of TLS is said.
pub(super) struct Waiting<T> {
    pub(super) tls: T,
    pub(super) sent: Sent,
}

impl<T> TlsConnect<CancelStream> for Waiting<T>
where
    T: TlsConnect<CancelStream>,
    T::Future: Send + 'static,
    T::Error: 'static,
{
    type Stream = WaitingStream<T::Stream>;
    type Error = T::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, T::Error>> + Send>>;

    fn connect(self, stream: CancelStream) -> Self::Future {
        let connecting = self.tls.connect(stream);
        Box::pin(async move { Ok(WaitingStream { stream: connecting.await?, sent: self.sent }) })
    }
}

pub(super) struct WaitingStream<S> {
    stream: S,
    sent: Sent,
}

impl<S: TlsStream + Unpin> TlsStream for WaitingStream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for WaitingStream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for WaitingStream<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.sent.set();
        poll_closed(Pin::new(&mut self.stream), context)
    }
}
