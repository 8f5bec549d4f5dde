//! Plain sessions that the driver takes for encrypted ones, like those of a connector, without a certificate.

use std::future::{Ready, ready};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use anyhow::Result;
use syncguard_postgres::deadpool_postgres::{
    Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
};
use syncguard_postgres::tokio_postgres::Config;
use syncguard_postgres::tokio_postgres::config::{SslMode, SslNegotiation};
use syncguard_postgres::tokio_postgres::tls::{
    ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream,
};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// Counts the sessions that it "encrypts".
#[derive(Clone, Default)]
pub(super) struct Passed(Arc<AtomicUsize>);

/// A pool whose sessions have to be encrypted.
pub(super) fn pool(url: &str, size: usize) -> Result<Pool> {
    let mut config: Config = url.parse()?;
    config.ssl_mode(SslMode::Require).ssl_negotiation(SslNegotiation::Direct);
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(config, Passed::default(), settings);
    Ok(Pool::builder(manager).max_size(size).runtime(Runtime::Tokio1).build()?)
}

impl Passed {
    pub(super) fn count(&self) -> usize {
        self.0.load(Ordering::SeqCst)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> MakeTlsConnect<S> for Passed {
    type Stream = Plain<S>;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, _: &str) -> io::Result<Self> {
        Ok(self.clone())
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsConnect<S> for Passed {
    type Stream = Plain<S>;
    type Error = io::Error;
    type Future = Ready<io::Result<Plain<S>>>;

    fn connect(self, stream: S) -> Self::Future {
        self.0.fetch_add(1, Ordering::SeqCst);
        ready(Ok(Plain(stream)))
    }
}

pub(super) struct Plain<S>(S);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Plain<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Plain<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Plain<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, buffer)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}
