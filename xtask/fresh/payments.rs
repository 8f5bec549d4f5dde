//! Payments behind axum: one charge at a time for each order.

use std::time::Duration;

use axum::Router;
use axum::extract::{Path, State};
use axum::http::StatusCode;
use axum::routing::post;
use syncguard::{DynBackend, ErrorCode, Fence, LockError, Locker};

#[derive(Debug)]
enum PayError {
    Lock(LockError),
    Declined,
}

impl From<LockError> for PayError {
    fn from(error: LockError) -> Self {
        Self::Lock(error)
    }
}

/// The write to the database carries the fence.
async fn charge(order: &str, fence: Fence) -> Result<Fence, PayError> {
    if order.is_empty() { Err(PayError::Declined) } else { Ok(fence) }
}

async fn pay(
    State(locks): State<Locker<DynBackend>>,
    Path(order): Path<String>,
) -> Result<String, StatusCode> {
    let paid =
        locks.lock_flat(order.as_str(), async |held| charge(&order, held.fence()).await).await;
    match paid {
        Ok(fence) => Ok(format!("locked under fence {fence}")),
        Err(PayError::Declined) => Err(StatusCode::PAYMENT_REQUIRED),
        Err(PayError::Lock(error)) if error.code() == ErrorCode::AcquisitionTimeout => {
            Err(StatusCode::CONFLICT)
        }
        Err(PayError::Lock(_)) => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let (url, order) = (arguments.next().unwrap_or_default(), arguments.next().unwrap_or_default());
    let backend = syncguard::connect(&url).await?;
    let locks = Locker::new(backend.clone())
        .with_ttl(Duration::from_secs(10))
        .wait_up_to(Duration::from_secs(2));

    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let app = Router::new().route("/pay/{order}", post(pay)).with_state(locks);
    let stop = syncguard::CancellationToken::new();
    let stopped = stop.clone().cancelled_owned();
    let server =
        tokio::spawn(
            async move { axum::serve(listener, app).with_graceful_shutdown(stopped).await },
        );

    println!("{}", call(address, &order).await?);
    stop.cancel();
    server.await??;
    // The backend releases each lock whose caller is gone.
    assert_eq!(backend.drained(Duration::from_secs(5)).await, 0);
    Ok(())
}

/// A client, so that the program needs no other.
async fn call(address: std::net::SocketAddr, order: &str) -> std::io::Result<String> {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await?;
    let request =
        format!("POST /pay/{order} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer)
}
