//! Cancels the statement of a session with a request of the driver, over a connection of its own.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, Socket};

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
    pub(crate) fn new<T>(tls: T) -> Self
    where
        T: MakeTlsConnect<Socket> + Clone + Send + Sync + 'static,
        T::Stream: Send,
        T::TlsConnect: Send,
        <T::TlsConnect as TlsConnect<Socket>>::Future: Send,
    {
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
    match timeout(LONGEST_SEND, token.cancel_query(tls)).await {
        Ok(Ok(())) => Delivery::Sent,
        Ok(Err(error)) if io_cause(&error).is_none() => Delivery::Refused,
        // The request is written in one piece, after all that can take long.
        Ok(Err(_)) | Err(_) => Delivery::Unreachable,
    }
}

impl fmt::Debug for CancelRequests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CancelRequests")
    }
}
