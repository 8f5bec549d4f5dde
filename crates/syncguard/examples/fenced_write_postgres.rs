//! Fenced writes in PostgreSQL: a holder that lost its lock without noticing cannot overwrite what
//! its successor wrote.
//!
//! ```console
//! $ docker run --rm -d -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
//! $ cargo run -p syncguard --features postgres --example fenced_write_postgres
//! ```
//!
//! Another server: `-- postgres://user:password@host/database`, or `SYNCGUARD_STORE`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use syncguard::fenced::{Dialect, FenceStatement, check};
use syncguard::postgres::PostgresBackend;
use syncguard::postgres::tokio_postgres::{self, Client, NoTls};
use syncguard::{Fence, Held, LockConfig, acquire, lock};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sets a balance unless a holder with a higher fence has done so before. Returns whether it wrote.
///
/// The row remembers the fence of its last write, and the first statement of the transaction moves it
/// forward. So the locks can be anywhere, in another database or in Redis.
async fn set_balance(
    db: &mut Client,
    fences: &FenceStatement,
    (account, balance): (i64, i64),
    fence: Fence,
) -> Result<bool> {
    let transaction = db.transaction().await?;
    let row = transaction.query_one(fences.sql(), &[&account, &fence.as_i64()]).await?;
    if check(fence, row.get::<_, i64>(0)).is_err() {
        // `StaleFence`, which ends the work of a real program. The transaction is rolled back.
        return Ok(false);
    }
    let sql = "UPDATE accounts SET balance = $2 WHERE id = $1";
    transaction.execute(sql, &[&account, &balance]).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Moves money, and commits only while this lock is held.
///
/// For locks in the same database; then no table of yours needs a fence. Until the transaction
/// ends, the check keeps the lock from being granted to another holder, so every later holder sees
/// what the transaction commits.
async fn transfer(backend: &PostgresBackend, db: &mut Client, held: &Held) -> Result<()> {
    let transaction = db.transaction().await?;
    backend.check_fence(&transaction, held.lock_id(), held.fence()).await?;
    transaction.execute("UPDATE accounts SET balance = balance - 5 WHERE id = 1", &[]).await?;
    transaction.execute("UPDATE accounts SET balance = balance + 5 WHERE id = 2", &[]).await?;
    transaction.commit().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let url = url.as_deref().unwrap_or("postgres://postgres:secret@127.0.0.1/postgres");
    let backend = PostgresBackend::connect(url).await?;
    backend.setup_schema().await?;
    let (mut db, connection) = tokio_postgres::connect(url, NoTls).await?;
    tokio::spawn(connection);
    lock(&backend, "accounts:schema", async |_| db.batch_execute(TABLE).await).await??;

    // A holder stalls and does not notice that its lock expires. A successor takes over.
    let config = LockConfig::new("accounts").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&backend, config).await?;
    let successor = acquire(&backend, "accounts").await?;

    // A column of a table of ours. With `for_rows`, fences have a table of their own.
    let fences = FenceStatement::for_column(Dialect::Postgres, "accounts", "id", "fence")?;
    let written = set_balance(&mut db, &fences, (1, 200), successor.fence()).await?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set_balance(&mut db, &fences, (1, 100), stalled.fence()).await?;
    println!("the stalled one writes under fence {}: {written}", stalled.fence());

    transfer(&backend, &mut db, &successor.held()).await?;
    println!("the successor's transfer is committed");
    match transfer(&backend, &mut db, &stalled.held()).await {
        Ok(()) => println!("the stalled one's transfer is committed"),
        Err(error) => println!("the stalled one's transfer is refused: {error}"),
    }
    println!("released: {}", successor.release().await?.is_released());
    Ok(())
}

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS accounts (
        id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
    INSERT INTO accounts (id, balance) VALUES (1, 0), (2, 0) ON CONFLICT DO NOTHING";
