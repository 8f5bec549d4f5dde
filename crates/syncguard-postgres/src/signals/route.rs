//! Opens the connection for signals.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use syncguard_core::{CredentialsProvider, LockError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_postgres::{AsyncMessage, Client, Config, Connection, Error};

use crate::dial::{self, Tls};

/// The options of signals.
#[derive(Clone, Debug)]
pub(crate) struct SignalOptions {
    pub(crate) are_on: bool,
    /// `None`: the options do not tell how to connect.
    pub(crate) route: Option<Route>,
}

/// The server to connect to, and the TLS connector.
#[derive(Clone)]
pub(crate) struct Route(Arc<dyn Fn() -> Opening + Send + Sync>);

type Opening = Pin<Box<dyn Future<Output = Result<(Client, Messages), LockError>> + Send>>;

/// The messages that the server sends unasked. The client gets answers only while these messages are polled.
pub(super) type Messages = Box<dyn PollMessage>;

impl Route {
    /// Connects as a pool with this configuration does.
    pub(crate) fn new(
        config: Config,
        tls: impl Tls,
        credentials: Option<CredentialsProvider>,
    ) -> Self {
        Self::through(move || {
            let (config, tls) = (config.clone(), tls.clone());
            let credentials = credentials.clone();
            async move { Ok(dial::open(&config, &tls, credentials.as_ref()).await?) }
        })
    }

    /// Connects in this way.
    pub(crate) fn through<F, S, T>(connect: impl Fn() -> F + Send + Sync + 'static) -> Self
    where
        F: Future<Output = Result<(Client, Connection<S, T>), LockError>> + Send + 'static,
        Connection<S, T>: PollMessage + 'static,
    {
        Self(Arc::new(move || {
            let connecting = connect();
            Box::pin(async move {
                let (client, connection) = connecting.await?;
                Ok((client, Box::new(connection) as Messages))
            })
        }))
    }

    pub(super) async fn open(&self) -> Result<(Client, Messages), LockError> {
        (self.0)().await
    }
}

impl fmt::Debug for Route {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Route")
    }
}

/// A connection of any kind.
pub(crate) trait PollMessage: Send {
    /// Polls the next message; `None` or an error is the end of the connection.
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, Error>>>;
}

impl<S, T> PollMessage for Connection<S, T>
where
    S: AsyncRead + AsyncWrite + Unpin + Send,
    T: AsyncRead + AsyncWrite + Unpin + Send,
{
    fn poll_message(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<AsyncMessage, Error>>> {
        Self::poll_message(self, context)
    }
}
