//! One address of a server, and a connection to it.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;

use tokio::net::TcpStream;
#[cfg(unix)]
use tokio::net::UnixStream;

use super::stream::Socket;

/// Where a server listens.
#[derive(Clone)]
pub(super) enum Address {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(PathBuf),
}

impl Address {
    pub(super) async fn connect(&self) -> io::Result<Socket> {
        Ok(match self {
            Self::Tcp(address) => Socket::Tcp(TcpStream::connect(address).await?),
            #[cfg(unix)]
            Self::Unix(path) => Socket::Unix(UnixStream::connect(path).await?),
        })
    }
}
