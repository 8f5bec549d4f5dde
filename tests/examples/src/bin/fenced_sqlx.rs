//! Fenced writes with sqlx, on a pool of its own: the locks are SyncGuard's, the data is the program's.
//!
//! ```console
//! $ docker run --rm -d -p 5432:5432 -e POSTGRES_PASSWORD=secret postgres
//! $ cargo run -p syncguard-examples --bin fenced_sqlx -- \
//!     postgres://postgres:secret@127.0.0.1/postgres
//! ```
//!
//! The URL may also be in `SYNCGUARD_STORE`.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use sqlx::{AssertSqlSafe, PgPool, raw_sql};
use syncguard::fenced::{Dialect, FenceStatement, check};
use syncguard::postgres::{PostgresBackend, PostgresOptions, check_fence_sql};
use syncguard::{Fence, Held, LockConfig, acquire, lock};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sets a balance unless a holder with a higher fence has written before; returns whether it did. The locks may be in
/// any store.
async fn set_balance(
    db: &PgPool,
    fences: &FenceStatement,
    (account, balance): (i64, i64),
    fence: Fence,
) -> Result<bool> {
    let mut transaction = db.begin().await?;
    let highest = sqlx::query_scalar::<_, i64>(AssertSqlSafe(fences.sql()))
        .bind(account)
        .bind(fence.as_i64());
    if check(fence, highest.fetch_one(&mut *transaction).await?).is_err() {
        // `StaleFence`, which ends the work of a real program.
        transaction.rollback().await?;
        return Ok(false);
    }
    let write = sqlx::query("UPDATE accounts SET balance = $2 WHERE id = $1");
    write.bind(account).bind(balance).execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(true)
}

/// Moves money, and commits only while this lock is held. This works for locks in the same database, and your tables
/// need no fence then. Returns whether the lock was held.
async fn transfer(db: &PgPool, check_fence: &'static str, held: &Held) -> Result<bool> {
    let mut transaction = db.begin().await?;
    let (lock_id, fence) = (held.lock_id(), held.fence().to_string());
    let check = sqlx::query(check_fence).bind(lock_id.expose()).bind(fence);
    if check.fetch_optional(&mut *transaction).await?.is_none() {
        transaction.rollback().await?;
        return Ok(false);
    }
    for sql in [
        "UPDATE accounts SET balance = balance - 5 WHERE id = 1",
        "UPDATE accounts SET balance = balance + 5 WHERE id = 2",
    ] {
        sqlx::query(sql).execute(&mut *transaction).await?;
    }
    transaction.commit().await?;
    Ok(true)
}

#[tokio::main]
async fn main() -> Result<()> {
    let url = env::args().nth(1).or_else(|| env::var("SYNCGUARD_STORE").ok());
    let url = url.as_deref().unwrap_or("postgres://postgres:secret@127.0.0.1/postgres");
    let backend = PostgresBackend::connect(url).await?;
    backend.setup_schema().await?;
    let db = PgPool::connect(url).await?;
    // Once for the program, because it holds the names of the tables.
    let check_fence: &'static str = check_fence_sql(&PostgresOptions::new())?.leak();
    lock(&backend, "accounts:schema", async |_| raw_sql(TABLE).execute(&db).await).await??;

    // A holder stalls: its lock expires while the holder believes that it holds it, and another holder takes over.
    let config = LockConfig::new("accounts").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&backend, config).await?;
    let successor = acquire(&backend, "accounts").await?;

    // A column of a table of ours. With `for_rows`, fences have a table of their own.
    let fences = FenceStatement::for_column(Dialect::Postgres, "accounts", "id", "fence")?;
    let written = set_balance(&db, &fences, (1, 200), successor.fence()).await?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set_balance(&db, &fences, (1, 100), stalled.fence()).await?;
    println!("the stalled one writes under fence {}: {written}", stalled.fence());

    let committed = transfer(&db, check_fence, &successor.held()).await?;
    println!("the successor's transfer is committed: {committed}");
    let committed = transfer(&db, check_fence, &stalled.held()).await?;
    println!("the stalled one's transfer is committed: {committed}");
    println!("released: {}", successor.release().await?.is_released());
    db.close().await;
    Ok(())
}

const TABLE: &str = "
    CREATE TABLE IF NOT EXISTS accounts (
        id bigint PRIMARY KEY, balance bigint NOT NULL, fence bigint NOT NULL DEFAULT 0);
    INSERT INTO accounts (id, balance) VALUES (1, 0), (2, 0) ON CONFLICT DO NOTHING";
