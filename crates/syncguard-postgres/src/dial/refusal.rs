//! An error of this library as an error of the driver, which the pool carries. Only the driver makes its errors, and it
//! keeps those of a stream as they are.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use syncguard_core::LockError;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::{Config, Error, NoTls};

/// A stream on which everything fails with this error.
struct Refusing(LockError);

impl Refusing {
    fn fail<T>(&self) -> Poll<io::Result<T>> {
        Poll::Ready(Err(io::Error::other(self.0.clone())))
    }
}

impl AsyncRead for Refusing {
    fn poll_read(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
        _: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.fail()
    }
}

impl AsyncWrite for Refusing {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        self.fail()
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fail()
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.fail()
    }
}

/// The driver's error with this one inside.
pub(super) async fn wrapped(error: LockError) -> Option<Error> {
    let mut config = Config::new();
    config.user("nobody").ssl_mode(SslMode::Disable);
    config.connect_raw(Refusing(error), NoTls).await.err()
}
