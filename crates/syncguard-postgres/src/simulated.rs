//! For tests: a backend whose connections are streams in memory, to a simulated server.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;

use deadpool_postgres::{Connect, Manager};
use syncguard_core::LockError;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::task::JoinHandle;
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Client, Config, Error, NoTls};

use crate::backend::PostgresBackend;
use crate::cancel_request::{CancelRequests, Delivery};
use crate::config::PostgresOptions;
use crate::connect::{Connectors, manager_config};
use crate::signals::route::Route;

/// A connection to a simulated server.
pub trait Stream: AsyncRead + AsyncWrite + Unpin + Send {}

impl<T: AsyncRead + AsyncWrite + Unpin + Send> Stream for T {}

/// Opens connections.
#[derive(Clone)]
pub(crate) struct Streams(Arc<dyn Fn() -> Box<dyn Stream> + Send + Sync>);

/// A backend with a pool of such connections. It sends nothing yet.
///
/// # Errors
///
/// As [`PostgresBackend::connect_with`].
pub fn over(
    options: PostgresOptions,
    open: impl Fn() -> Box<dyn Stream> + Send + Sync + 'static,
) -> Result<PostgresBackend, LockError> {
    let mut config = Config::new();
    config.user("simulated").ssl_mode(SslMode::Disable);
    PostgresBackend::connect_later(config, &options.with_streams(Streams(Arc::new(open))))
}

impl Streams {
    pub(crate) fn connectors(&self, config: &Config) -> Connectors {
        let manager = Manager::from_connect(config.clone(), self.clone(), manager_config());
        let (streams, config) = (self.clone(), config.clone());
        Connectors {
            manager,
            cancel: CancelRequests::through({
                let streams = streams.clone();
                move |token| cancel(token, (streams.0)())
            }),
            signals: Route::through(move || open(config.clone(), (streams.0)())),
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
