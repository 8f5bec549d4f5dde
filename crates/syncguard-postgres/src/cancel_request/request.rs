//! One request over a connection that stays open until the other side closes it.

use std::any::TypeId;
use std::pin::pin;
use std::time::Duration;

use tokio::time::timeout;
use tokio_postgres::tls::{MakeTlsConnect, TlsConnect};
use tokio_postgres::{CancelToken, NoTls};

use super::address::Address;
use super::stream::{CancelStream, Sent, Waiting};
use super::{Delivery, LONGEST_SEND, failure};

/// How long the other side has to close the connection. A pooler passes the request on first.
const LONGEST_CLOSE: Duration = Duration::from_secs(10);

/// Sends a request. `name` is what the server's certificate has to show.
pub(super) async fn request<T>(
    address: Address,
    name: String,
    token: CancelToken,
    tls: T,
) -> Delivery
where
    T: MakeTlsConnect<CancelStream> + 'static,
    <T::TlsConnect as TlsConnect<CancelStream>>::Future: Send,
{
    let sent = Sent::default();
    let mut sending = pin!(send(address, &name, &token, tls, sent.clone()));
    match timeout(LONGEST_SEND, &mut sending).await {
        Ok(delivery) => delivery,
        Err(_) if !sent.get() => Delivery::Unreachable,
        Err(_) => timeout(LONGEST_CLOSE, sending).await.unwrap_or(Delivery::Sent),
    }
}

async fn send<T>(
    address: Address,
    name: &str,
    token: &CancelToken,
    mut tls: T,
    sent: Sent,
) -> Delivery
where
    T: MakeTlsConnect<CancelStream> + 'static,
    <T::TlsConnect as TlsConnect<CancelStream>>::Future: Send,
{
    let Ok(socket) = address.connect().await else { return Delivery::Unreachable };
    let stream = CancelStream::new(socket, sent.clone());
    // What wraps a connector cannot say that it has no TLS to offer; the driver must see this one.
    let done = if TypeId::of::<T>() == TypeId::of::<NoTls>() {
        token.cancel_query_raw(stream, NoTls).await
    } else {
        let Ok(tls) = tls.make_tls_connect(name) else { return Delivery::Refused };
        token.cancel_query_raw(stream, Waiting { tls, sent }).await
    };
    done.map_or_else(|error| failure(&error), |()| Delivery::Done)
}
