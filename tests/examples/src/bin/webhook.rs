//! A webhook that processes each event once, however often and in parallel it is delivered.
//!
//! A sender delivers an event again until it sees a success, and sometimes twice at once. Three
//! things together make that harmless:
//!
//! 1. The **lock** of the event lets one delivery at a time go on, in all of your processes.
//! 2. The **record** of processed events tells those that waited, and those of next week, that there
//!    is nothing to do. A lock alone cannot: it is forgotten as soon as it is released.
//! 3. **One transaction** for the record and for what the event changes, so that a crash leaves both
//!    or neither. Its primary key has the last word, also if the lock was lost.
//!
//! ```console
//! $ docker run --rm -d -p 6379:6379 redis
//! $ docker run --rm -d -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
//! $ cargo run -p syncguard-examples --bin webhook -- \
//!     redis://127.0.0.1 postgres://postgres:secret@127.0.0.1/postgres
//! $ curl -d 'two books' -H 'webhook-id: evt_1' http://127.0.0.1:3000/webhook
//! ```
//!
//! The URLs may also be in `SYNCGUARD_STORE` and `DATABASE_URL`, the address in `LISTEN`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;
use std::{env, process};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::{Router, routing::post};
use syncguard::contract::HashId;
use syncguard::postgres::deadpool_postgres::{Client, Manager, Pool, Runtime, Timeouts};
use syncguard::postgres::tokio_postgres::NoTls;
use syncguard::{AcquisitionOptions, AutoExtend, Backoff, DynBackend, Key, Locker};
use tokio::signal::unix::{SignalKind, signal};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Clone)]
struct App {
    locks: Locker<DynBackend>,
    database: Pool,
}

#[tokio::main]
async fn main() -> Result<()> {
    let setting = |argument, name: &str, default: &str| {
        let given = env::args().nth(argument).or_else(|| env::var(name).ok());
        given.unwrap_or_else(|| default.to_owned())
    };
    let locks = setting(1, "SYNCGUARD_STORE", "redis://127.0.0.1");
    let database = setting(2, "DATABASE_URL", "postgres://postgres:secret@127.0.0.1/postgres");
    let patience = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_max_retries(u32::MAX)
        .with_timeout(Duration::from_secs(8)); // less than the sender waits
    let app = App {
        locks: Locker::new(syncguard::connect(&locks).await?)
            .with_ttl(Duration::from_secs(10))
            .with_auto_extend(AutoExtend::new().with_max_hold(Duration::from_secs(60)))
            .with_acquisition(patience),
        database: pool(&database)?,
    };
    // Under a lock, because two processes cannot create a table at the same time.
    let client = app.database.get().await?;
    app.locks.lock("webhook:schema", async |_| client.batch_execute(TABLES).await).await??;
    drop(client);

    let listener = tokio::net::TcpListener::bind(setting(3, "LISTEN", "127.0.0.1:3000")).await?;
    println!("{} listens on {}", process::id(), listener.local_addr()?);
    let mut terminate = signal(SignalKind::terminate())?;
    let shutdown = async move {
        tokio::select! {
            _ = tokio::signal::ctrl_c() => {}
            _ = terminate.recv() => {}
        }
    };
    let locks = app.locks.clone();
    let router = Router::new().route("/webhook", post(receive)).with_state(app);
    // Deliveries in progress are finished, and their locks released.
    axum::serve(listener, router).with_graceful_shutdown(shutdown).await?;
    // Also the locks of senders that hung up.
    let left = locks.drained(Duration::from_secs(5)).await;
    if left > 0 {
        println!("{} leaves {left} locks to their TTL", process::id());
    }
    println!("{} is done", process::id());
    Ok(())
}

/// If the sender hangs up, axum drops this future: the transaction is rolled back, the lock released
/// in the background, and the next delivery starts anew.
async fn receive(
    State(app): State<App>,
    headers: HeaderMap,
    body: String,
) -> (StatusCode, &'static str) {
    // Verify the signature first: the sender of an id chooses what is locked.
    let event = headers.get("webhook-id").and_then(|id| id.to_str().ok());
    let Some(event) = event.filter(|id| (1..=100).contains(&id.len())) else {
        return (StatusCode::BAD_REQUEST, "a webhook-id of 1 to 100 characters is needed");
    };
    match process(&app, event, &body).await {
        Ok(true) => (StatusCode::OK, "processed"),
        Ok(false) => (StatusCode::OK, "processed before"),
        // An error, so that the sender tries again: never answer 200 for an event that is not recorded.
        Err(error) => {
            println!("{} failed: {error}", process::id());
            (StatusCode::SERVICE_UNAVAILABLE, "deliver it again")
        }
    }
}

/// Returns false if the event was processed before.
async fn process(app: &App, event: &str, body: &str) -> Result<bool> {
    // Most repetitions come late, and need no lock.
    if is_processed(&app.database.get().await?, event).await? {
        return Ok(false);
    }
    let work = async {
        if is_processed(&app.database.get().await?, event).await? {
            return Ok(false); // by the holder that we waited for
        }
        ship(event).await;
        let mut client = app.database.get().await?;
        let transaction = client.transaction().await?;
        transaction.execute("INSERT INTO processed_events (id) VALUES ($1)", &[&event]).await?;
        transaction.execute("INSERT INTO orders VALUES ($1, $2)", &[&event, &body]).await?;
        transaction.commit().await?;
        Ok(true)
    };
    app.locks.lock(bucket(event)?, async |held| held.or_lost(work).await).await??
}

/// One of 65 536 keys, since each key that was ever locked leaves a fence counter in the store for ever, and events have
/// no end. Events of one bucket wait for each other.
fn bucket(event: &str) -> Result<String> {
    let hash = HashId::from(&Key::new(event)?).to_string();
    Ok(format!("webhook:{hash:.4}"))
}

/// A call to another service, which our transaction cannot undo: the lock keeps it from happening twice at once.
/// After a crash before the commit it happens again, so pass the event's id on as its idempotency key.
async fn ship(event: &str) {
    println!("{} ships {event}", process::id());
    tokio::time::sleep(Duration::from_millis(50)).await;
}

async fn is_processed(client: &Client, event: &str) -> Result<bool> {
    let sql = "SELECT FROM processed_events WHERE id = $1";
    Ok(client.query_opt(sql, &[&event]).await?.is_some())
}

fn pool(url: &str) -> Result<Pool> {
    // deadpool waits for ever by default.
    let timeouts = Timeouts {
        wait: Some(Duration::from_secs(5)),
        create: Some(Duration::from_secs(5)),
        recycle: Some(Duration::from_secs(5)),
    };
    let pool = Pool::builder(Manager::new(url.parse()?, NoTls)).max_size(8);
    Ok(pool.timeouts(timeouts).runtime(Runtime::Tokio1).build()?)
}

/// Delete records that are older than the time for which the sender tries.
const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS processed_events (
        id text PRIMARY KEY, at timestamptz NOT NULL DEFAULT now());
    CREATE TABLE IF NOT EXISTS orders (event text NOT NULL, content text NOT NULL)";
