//! Fenced writes with sqlx on SQLite: the data is in a file of its own, and the locks may be anywhere.
//!
//! ```console
//! $ cargo run -p syncguard-examples --bin fenced_sqlx_sqlite -- sqlite:///tmp/data.db?mode=rwc
//! ```
//!
//! The locks of this example are in memory.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::env;
use std::time::Duration;

use sqlx::{AssertSqlSafe, SqlitePool};
use syncguard::fenced::{Dialect, FenceStatement, check, create_table};
use syncguard::memory::MemoryBackend;
use syncguard::{Fence, LockConfig, acquire};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Sets a value unless a holder with a higher fence has done so before. Returns whether it wrote.
///
/// If another writer comes in between, this fails with `SQLITE_BUSY`, and may be repeated.
async fn set(db: &SqlitePool, fences: &FenceStatement, value: &str, fence: Fence) -> Result<bool> {
    let mut transaction = db.begin().await?;
    let highest = sqlx::query_scalar::<_, i64>(AssertSqlSafe(fences.sql()))
        .bind("profile:7")
        .bind(fence.as_i64());
    if check(fence, highest.fetch_one(&mut *transaction).await?).is_err() {
        // `StaleFence`, which ends the work of a real program.
        transaction.rollback().await?;
        return Ok(false);
    }
    let write = sqlx::query("INSERT OR REPLACE INTO profiles VALUES (7, ?1)").bind(value);
    write.execute(&mut *transaction).await?;
    transaction.commit().await?;
    Ok(true)
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let url = env::args().nth(1).ok_or("the URL of a database")?;
    let db = SqlitePool::connect(&url).await?;
    let table = "CREATE TABLE IF NOT EXISTS profiles (id INTEGER PRIMARY KEY, name TEXT)";
    sqlx::query(table).execute(&db).await?;
    sqlx::query(AssertSqlSafe(create_table(Dialect::Sqlite, "fences")?)).execute(&db).await?;
    let fences = FenceStatement::for_rows(Dialect::Sqlite, "fences")?;

    // A holder stalls and does not notice that its lock expires. A successor takes over.
    let locks = MemoryBackend::new();
    let config = LockConfig::new("profile:7").with_ttl(Duration::from_millis(100));
    let stalled = acquire(&locks, config).await?;
    let successor = acquire(&locks, "profile:7").await?;

    let written = set(&db, &fences, "new", successor.fence()).await?;
    println!("the successor writes under fence {}: {written}", successor.fence());
    let written = set(&db, &fences, "old", stalled.fence()).await?;
    println!("the stalled one writes under fence {}: {written}", stalled.fence());

    let name = sqlx::query_scalar::<_, String>("SELECT name FROM profiles WHERE id = 7");
    println!("stored: {}", name.fetch_one(&db).await?);
    println!("released: {}", successor.release().await?.is_released());
    Ok(())
}
