//! Connections to a simulated server: streams in memory.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::{Connect, Manager};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls};

use crate::cancel_request::{CancelRequests, Delivery};
use crate::connect::{Connectors, manager_config};
use crate::error::{Phase, classify};
use crate::signals::route::Route;

/// A connection to a simulated server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Streams(Arc<dyn Fn() -> Box<dyn Stream> + Send + Sync>);

impl Streams {
    pub(super) fn new(open: impl Fn() -> Box<dyn Stream> + Send + Sync + 'static) -> Self {
        Self(Arc::new(open))
    }

    pub(super) fn connectors(self, config: Config) -> Connectors {
        let (cancelling, signalling, of_signals) = (self.clone(), self.clone(), config.clone());
        Connectors {
            cancel: CancelRequests::through(move |token| cancel(token, (cancelling.0)())),
            signals: Route::through(move || {
                let opening = open(of_signals.clone(), (signalling.0)());
                async { opening.await.map_err(|error| classify(&error, Phase::Before).error) }
            }),
            manager: Manager::from_connect(config, self, manager_config()),
        }
    }
}

async fn cancel(token: CancelToken, stream: Box<dyn Stream>) -> Delivery {
    match token.cancel_query_raw(stream, NoTls).await {
        Ok(()) => Delivery::Sent,
        Err(_) => Delivery::Unreachable,
    }
}

type Connection = tokio_postgres::Connection<Box<dyn Stream>, tokio_postgres::tls::NoTlsStream>;

async fn open(config: Config, stream: Box<dyn Stream>) -> Result<(Client, Connection), Error> {
    config.connect_raw(stream, NoTls).await
}

impl Connect for Streams {
    fn connect(
        &self,
        config: &Config,
    ) -> Pin<Box<dyn Future<Output = Result<(Client, JoinHandle<()>), Error>> + Send + '_>> {
        let opening = open(config.clone(), (self.0)());
        Box::pin(async move {
            let (client, connection) = opening.await?;
            let task = tokio::spawn(async move { drop(connection.await) });
            Ok((client, task))
        })
    }
}

impl fmt::Debug for Streams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Streams")
    }
}
