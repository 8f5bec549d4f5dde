//! Fenced writes with rusqlite: the data is in a file of its own, and the locks may be anywhere.
//!
//! ```console
//! $ cargo run -p syncguard-examples --bin fenced_rusqlite -- /tmp/data.db
//! ```
//!
//! The locks are in the file `data.db.locks` beside it.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use syncguard::fenced::{Dialect, FenceStatement, check, create_table};
use syncguard::sqlite::SqliteBackend;
use syncguard::{Fence, LockConfig, acquire};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Sets a value unless a holder with a higher fence has done so before. Returns whether it wrote.
///
/// If the file is busy for longer than the timeout, this fails with `SQLITE_BUSY`, and may be repeated.
fn set(db: &mut Connection, fences: &FenceStatement, value: &str, fence: Fence) -> Result<bool> {
    // Other writers wait from here on.
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let highest: i64 =
        transaction.query_row(fences.sql(), ("profile:7", fence.as_i64()), |row| row.get(0))?;
    if check(fence, highest).is_err() {
        // `StaleFence`, which ends the work of a real program. The transaction is rolled back.
        return Ok(false);
    }
    transaction.execute("INSERT OR REPLACE INTO profiles VALUES (7, ?1)", [value])?;
    transaction.commit()?;
    Ok(true)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let path = env::args().nth(1).ok_or("the path of a database")?;
    let locks = SqliteBackend::open(format!("{path}.locks")).await?;
    let mut db = Connection::open(path)?;
    db.busy_timeout(Duration::from_secs(5))?;
    db.execute_batch("CREATE TABLE IF NOT EXISTS profiles (id INTEGER PRIMARY KEY, name TEXT)")?;
    db.execute_batch(&create_table(Dialect::Sqlite, "fences")?)?;
    let fences = FenceStatement::for_rows(Dialect::Sqlite, "fences")?;

    // A holder stalls and does not notice that its lock expires. A successor takes over.
    let config = LockConfig::new("profile:7").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&locks, config).await?;
    let successor = acquire(&locks, "profile:7").await?;

    let written = set(&mut db, &fences, "new", successor.fence())?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set(&mut db, &fences, "old", stalled.fence())?;
    println!("the stalled one writes under fence {}: {written}", stalled.fence());

    let name = db.query_row("SELECT name FROM profiles WHERE id = 7", (), |row| row.get(0));
    println!("stored: {}", name.optional()?.unwrap_or(String::new()));
    println!("released: {}", successor.release().await?.is_released());
    Ok(())
}
