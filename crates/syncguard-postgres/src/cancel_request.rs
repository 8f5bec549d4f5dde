//! Asking the server to end what a session is doing, over a connection of its own.

mod address;
mod identity;
mod request;
mod stream;
mod target;

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Config, Error, NoTls};

pub(crate) use self::identity::process_of;
pub use self::stream::CancelStream;
use self::target::Targets;
use crate::error::io_cause;

/// The longest that a request may take until it is sent.
const LONGEST_SEND: Duration = Duration::from_secs(1);

/// How long a request takes to the session once the connection stands and the server is awake, where
/// the server does not say that it is done with it: one way, and the making of a process.
const LONGEST_WAY: Duration = Duration::from_millis(250);

/// How requests are sent.
#[derive(Clone)]
pub(crate) struct CancelRequests {
    way: Arc<dyn Fn(CancelToken) -> Sending + Send + Sync>,
    /// How long to let a session rest that has answered, and that a request may still reach. In an idle
    /// session it has no effect; later it would end another statement. `None`: such a session is not to
    /// be used again.
    pub(crate) rest: Option<Duration>,
}

type Sending = Pin<Box<dyn Future<Output = Delivery> + Send>>;

/// How far a request has come. The server does not say what it did with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Delivery {
    /// There was no connection to be had.
    Unreachable,
    /// There was one, and no way to use it that both sides accept.
    Refused,
    /// The server is done with it.
    Done,
    /// It may still be under way.
    Sent,
}

impl CancelRequests {
    /// To the servers that a pool connects to, in the same way. The connection is kept until the
    /// server closes it, as libpq does it: PgBouncer 1.18 and 1.19.0 die of one that is closed sooner
    /// (its issue 801).
    pub(crate) fn to<T>(config: &Config, tls: T) -> Self
    where
        T: MakeTlsConnect<CancelStream> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<CancelStream>>::Future: Send,
    {
        let targets = Arc::new(Targets::new(config));
        let way =
            move |token| -> Sending { Box::pin(Arc::clone(&targets).send(token, tls.clone())) };
        Self { way: Arc::new(way), rest: None }
    }

    /// To the server of a session, wherever it is, in plain text. The driver knows where, and closes
    /// the connection as soon as the request is sent; so there is none for a pooler.
    pub(crate) fn by_driver() -> Self {
        let way = |token| -> Sending { Box::pin(send_by_driver(token)) };
        Self { way: Arc::new(way), rest: Some(LONGEST_WAY) }
    }

    /// One request, which goes on in the background until the server is done with it.
    pub(crate) fn send(&self, token: CancelToken) -> JoinHandle<Delivery> {
        tokio::spawn((self.way)(token))
    }
}

async fn send_by_driver(token: CancelToken) -> Delivery {
    if !identity::is_of_a_server(&token).await {
        return Delivery::Refused;
    }
    match timeout(LONGEST_SEND, token.cancel_query(NoTls)).await {
        Ok(Ok(())) => Delivery::Sent,
        Ok(Err(error)) => failure(&error),
        Err(_) => Delivery::Unreachable,
    }
}

fn failure(error: &Error) -> Delivery {
    if io_cause(error).is_some() { Delivery::Unreachable } else { Delivery::Refused }
}

impl fmt::Debug for CancelRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelRequests")
    }
}
