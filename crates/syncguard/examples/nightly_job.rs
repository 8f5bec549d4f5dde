//! A nightly job on several machines: each night it is done once, even if a machine dies.
//!
//! Cron or a systemd timer starts it on every machine at the same time. One machine does the job.
//! The others wait for the lock, see that the job is done, and end; if the first machine dies, the
//! next goes on where it stopped.
//!
//! ```console
//! $ docker run --rm -d -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
//! $ cargo run -p syncguard --features postgres --example nightly_job
//! ```
//!
//! Another server: `-- postgres://user:password@host/database`, or `SYNCGUARD_STORE`. A date after
//! the URL repeats a missed night.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::time::Duration;
use std::{env, io, process};

use syncguard::postgres::PostgresBackend;
use syncguard::postgres::tokio_postgres::{self, Client, NoTls};
use syncguard::{
    AcquisitionOptions, AutoExtend, Backoff, CancellationToken, Held, LockConfig, lock,
};
use tokio::signal::ctrl_c;
use tokio::signal::unix::{SignalKind, signal};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The job never takes longer.
const NIGHT: Duration = Duration::from_secs(4 * 3600);

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let url = url.as_deref().unwrap_or("postgres://postgres:secret@127.0.0.1/postgres");
    // The locks have a pool of their own, so that work with busy connections cannot delay a
    // renewal.
    let backend = PostgresBackend::connect(url).await?;
    backend.setup_schema().await?;
    let (mut db, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);

    // All machines must mean the same night, whatever their clocks and time zones.
    let today = db.query_one("SELECT current_date::text", &[]).await?.try_get(0)?;
    let night = env::args().nth(2).unwrap_or(today);
    let shutdown = shutdown()?;
    let patience = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_retry_delay(Duration::from_secs(1))
        .with_max_retries(u32::MAX)
        .with_timeout(NIGHT);
    let config = LockConfig::new("nightly:invoices")
        .with_ttl(Duration::from_secs(30)) // the job waits for this long after a crash
        .with_auto_extend(AutoExtend::new().with_max_hold(NIGHT))
        .with_acquisition(patience)
        .with_cancellation(shutdown.clone());
    lock(&backend, config, async |held| {
        tokio::select! {
            biased;
            () = shutdown.cancelled() => Err("stopped; the next machine goes on".into()),
            done = held.or_lost(work(&backend, &mut db, &night, &held)) => done?,
        }
    })
    .await?
}

/// The job, under the lock. The lock decides which machine works; only the record in `nightly_runs`
/// says whether the job is done, because a lock is forgotten when it is released.
async fn work(backend: &PostgresBackend, db: &mut Client, night: &str, held: &Held) -> Result<()> {
    let me = process::id();
    db.batch_execute(TABLES).await?; // two at once would fail; under the lock there is one
    let done = "SELECT FROM nightly_runs WHERE night = $1::text::date";
    if db.query_opt(done, &[&night]).await?.is_some() {
        println!("{me} has nothing to do: {night} is done");
        return Ok(());
    }
    println!("{me} runs {night} under fence {}", held.fence());
    let fence = held.fence().as_i64();
    loop {
        // Short transactions, each of which commits only while the lock is held: finished steps
        // stay finished, and a machine that was away for too long adds nothing.
        let transaction = db.transaction().await?;
        backend.check_fence(&transaction, held.lock_id(), held.fence()).await?;
        let written = transaction.execute(NEXT_INVOICES, &[&night, &fence]).await?;
        if written == 0 {
            let finish = "INSERT INTO nightly_runs (night, fence) VALUES ($1::text::date, $2)";
            transaction.execute(finish, &[&night, &fence]).await?;
        }
        transaction.commit().await?;
        if written == 0 {
            println!("{me} has finished {night}");
            return Ok(());
        }
    }
}

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS customers (id bigint PRIMARY KEY);
    CREATE TABLE IF NOT EXISTS invoices (
        night date, customer bigint, fence bigint NOT NULL, PRIMARY KEY (night, customer));
    CREATE TABLE IF NOT EXISTS nightly_runs (night date PRIMARY KEY, fence bigint NOT NULL);
    INSERT INTO customers SELECT generate_series(1, 50) ON CONFLICT DO NOTHING";

const NEXT_INVOICES: &str = "
    INSERT INTO invoices (night, customer, fence)
    SELECT $1::text::date, id, $2 FROM customers AS c WHERE NOT EXISTS (
        SELECT FROM invoices WHERE night = $1::text::date AND customer = c.id)
    ORDER BY id LIMIT 10";

/// A token that fires on Ctrl-C, and on the SIGTERM of systemd and Kubernetes.
fn shutdown() -> io::Result<CancellationToken> {
    let (token, mut terminate) = (CancellationToken::new(), signal(SignalKind::terminate())?);
    let fired = token.clone();
    tokio::spawn(async move {
        tokio::select! {
            _ = ctrl_c() => {}
            _ = terminate.recv() => {}
        }
        fired.cancel();
    });
    Ok(token)
}
