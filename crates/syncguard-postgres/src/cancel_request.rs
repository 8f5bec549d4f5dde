//! Cancels the statement of a session with a request of the driver, over a connection of its own.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_util::future::{MapOk, TryFutureExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::timeout;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Socket};

use crate::dial::Tls;
use crate::error::io_cause;

/// The longest that a request may take until it is sent.
const LONGEST_SEND: Duration = Duration::from_secs(1);

/// How requests are sent.
#[derive(Clone)]
pub(crate) struct CancelRequests(Arc<dyn Fn(CancelToken) -> Sending + Send + Sync>);

type Sending = Pin<Box<dyn Future<Output = Delivery> + Send>>;

/// How far a request has come. The server does not say what it did with the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Delivery {
    /// No connection could be opened.
    Unreachable,
    /// The connection cannot be used: one side insists on TLS or refuses it.
    Refused,
    /// The request may still be on its way to the session: the driver closes the connection at once.
    Sent,
}

impl CancelRequests {
    /// Requests as a session with this connector connects.
    pub(crate) fn new(tls: impl Tls) -> Self {
        Self::through(move |token| {
            let tls = tls.clone();
            async move { send(&token, tls).await }
        })
    }

    /// Requests that are sent in this way.
    pub(crate) fn through<F>(send: impl Fn(CancelToken) -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Delivery> + Send + 'static,
    {
        Self(Arc::new(move |token| Box::pin(send(token))))
    }

    /// Sends one request, which takes a second at most.
    pub(crate) async fn send(&self, token: CancelToken) -> Delivery {
        (self.0)(token).await
    }
}

async fn send<T>(token: &CancelToken, tls: T) -> Delivery
where
    T: MakeTlsConnect<Socket>,
{
    match timeout(LONGEST_SEND, token.cancel_query(UntilClosed(tls))).await {
        Ok(Ok(())) => Delivery::Sent,
        Ok(Err(error)) if io_cause(&error).is_none() => Delivery::Refused,
        // The request is written in one piece, after all that can take long.
        Ok(Err(_)) | Err(_) => Delivery::Unreachable,
    }
}

/// Ends a connection only when the server has closed it. A server that still writes to a closed one, such as the tickets of TLS
/// 1.3, may end it before it has read the request.
struct UntilClosed<T>(T);

impl<T: MakeTlsConnect<Socket>> MakeTlsConnect<Socket> for UntilClosed<T> {
    type Stream = UntilClosed<T::Stream>;
    type TlsConnect = UntilClosed<T::TlsConnect>;
    type Error = T::Error;

    fn make_tls_connect(&mut self, host: &str) -> Result<Self::TlsConnect, T::Error> {
        self.0.make_tls_connect(host).map(UntilClosed)
    }
}

impl<T: TlsConnect<Socket>> TlsConnect<Socket> for UntilClosed<T> {
    type Stream = UntilClosed<T::Stream>;
    type Error = T::Error;
    type Future = MapOk<T::Future, fn(T::Stream) -> UntilClosed<T::Stream>>;

    fn connect(self, stream: Socket) -> Self::Future {
        self.0.connect(stream).map_ok(UntilClosed)
    }
}

impl<S: TlsStream + Unpin> TlsStream for UntilClosed<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.0.channel_binding()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for UntilClosed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for UntilClosed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut swallowed = [0; 64];
        loop {
            let mut buffer = ReadBuf::new(&mut swallowed);
            match Pin::new(&mut self.0).poll_read(context, &mut buffer) {
                Poll::Ready(Ok(())) if !buffer.filled().is_empty() => {}
                Poll::Ready(_) => return Pin::new(&mut self.0).poll_shutdown(context),
                Poll::Pending => return Poll::Pending,
            }
        }
    }
}

impl fmt::Debug for CancelRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelRequests")
    }
}
