//! A migration gate: before the instances of a service start, one of them brings the schema up to
//! date, and all others wait until that is done.
//!
//! ```console
//! $ docker run --rm -d -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
//! $ cargo run -p syncguard --features postgres --example migration_gate
//! ```
//!
//! Another server: `-- postgres://user:password@host/database`, or `SYNCGUARD_STORE`.

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

/// The migrations in order; the first makes version 1. Only ever add to the end.
const MIGRATIONS: &[&str] = &[
    "CREATE TABLE members (id bigint PRIMARY KEY, name text NOT NULL)",
    "ALTER TABLE members ADD COLUMN joined timestamptz NOT NULL DEFAULT now()",
    "CREATE INDEX members_joined ON members (joined)",
];

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let url = url.as_deref().unwrap_or("postgres://postgres:secret@127.0.0.1/postgres");
    let (backend, me) = (PostgresBackend::connect(url).await?, process::id());
    backend.setup_schema().await?;
    let (mut db, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    let shutdown = shutdown()?;

    println!("{me} is at the gate");
    pass(&backend, &mut db, &shutdown).await?;
    println!("{me} starts on version {}", version(&db).await?);
    // … serve until `shutdown` …
    Ok(())
}

/// Returns when the schema is up to date. An error means: do not start.
async fn pass(
    backend: &PostgresBackend,
    db: &mut Client,
    shutdown: &CancellationToken,
) -> Result<()> {
    // Nearly every start ends here. After a rollback to an older release the schema is ahead, which
    // is fine as well.
    if version(db).await? >= MIGRATIONS.len() {
        return Ok(());
    }
    let patience = AcquisitionOptions::new()
        .with_backoff(Backoff::Fixed)
        .with_retry_delay(Duration::from_millis(500))
        .with_max_retries(u32::MAX)
        .with_timeout(Duration::from_secs(600)); // then the orchestrator starts us anew
    let config = LockConfig::new("migrations")
        .with_ttl(Duration::from_secs(15)) // all instances wait for this long after a crash
        .with_auto_extend(AutoExtend::new())
        .with_acquisition(patience)
        .with_cancellation(shutdown.clone());
    lock(backend, config, async |held| {
        tokio::select! {
            biased;
            // If the lock is lost too, the transaction is dropped, and PostgreSQL rolls it back.
            () = shutdown.cancelled() => Err("stopped while migrating".into()),
            done = held.or_lost(migrate(backend, db, &held)) => done?,
        }
    })
    .await?
}

/// Runs the missing migrations, under the lock. For an instance that had to wait for the lock, none
/// are missing.
async fn migrate(backend: &PostgresBackend, db: &mut Client, held: &Held) -> Result<()> {
    let me = process::id();
    db.batch_execute("CREATE TABLE IF NOT EXISTS schema_versions (version bigint PRIMARY KEY)")
        .await?;
    for (number, sql) in (1_i64..).zip(MIGRATIONS).skip(version(db).await?) {
        // All or nothing, and only while the lock is held: until the commit no other instance can
        // take it.
        let transaction = db.transaction().await?;
        backend.check_fence(&transaction, held.lock_id(), held.fence()).await?;
        transaction.batch_execute(sql).await?;
        transaction.execute("INSERT INTO schema_versions VALUES ($1)", &[&number]).await?;
        transaction.commit().await?;
        println!("{me} migrated to version {number}");
    }
    Ok(())
}

/// The number of migrations that have been run.
async fn version(db: &Client) -> Result<usize> {
    let exists = "SELECT to_regclass('schema_versions') IS NOT NULL";
    if !db.query_one(exists, &[]).await?.try_get::<_, bool>(0)? {
        return Ok(0);
    }
    let row = db.query_one("SELECT count(*) FROM schema_versions", &[]).await?;
    Ok(usize::try_from(row.try_get::<_, i64>(0)?)?)
}

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
