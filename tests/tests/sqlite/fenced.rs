//! Fenced writes: data in SQLite under locks of any store.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use syncguard::Fence;
use syncguard::fenced::{Dialect, FenceStatement, check, create_table};
use tempfile::TempDir;

use crate::support::writers::{Attempt, LANES, Writers};

fn open(folder: &TempDir) -> Result<Connection> {
    let connection = Connection::open(folder.path().join("data.db"))?;
    connection.busy_timeout(Duration::from_secs(60))?;
    Ok(connection)
}

fn write(
    connection: &mut Connection,
    behavior: TransactionBehavior,
    statement: &FenceStatement,
    fence: Fence,
) -> rusqlite::Result<Attempt> {
    let transaction = connection.transaction_with_behavior(behavior)?;
    let answer: i64 =
        transaction.query_row(statement.sql(), ("it", fence.as_i64()), |row| row.get(0))?;
    if check(fence, answer).is_err() {
        return Ok(Attempt::Stale);
    }
    let total: i64 = transaction.query_row("SELECT total FROM data", (), |row| row.get(0))?;
    let sql = "UPDATE data SET total = ?1, trace = trace || ?2 || ','";
    transaction.execute(sql, (total + 1, fence.get().to_string()))?;
    transaction.commit()?;
    Ok(Attempt::Written)
}

/// Hundreds of writers on threads of their own, in a journal and with transactions of a kind.
fn crowd(journal: &str, behavior: TransactionBehavior, is_column: bool) -> Result<()> {
    let folder = tempfile::tempdir()?;
    let connection = open(&folder)?;
    connection.query_row(&format!("PRAGMA journal_mode = {journal}"), (), |_| Ok(()))?;
    connection.execute_batch(&format!(
        "{}; CREATE TABLE data (id TEXT PRIMARY KEY, total INTEGER NOT NULL, trace TEXT NOT NULL);
         INSERT INTO data VALUES ('it', 0, ''); ALTER TABLE data ADD COLUMN fence INTEGER",
        create_table(Dialect::Sqlite, "fences")?
    ))?;
    let statement = if is_column {
        FenceStatement::for_column(Dialect::Sqlite, "data", "id", "fence")?
    } else {
        FenceStatement::for_rows(Dialect::Sqlite, "main.fences")?
    };
    let writers = Writers::default();
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES)
            .map(|lane| {
                let (folder, statement, writers) = (&folder, &statement, &writers);
                scope.spawn(move || -> Result<()> {
                    let mut connection = open(folder)?;
                    connection.pragma_update(None, "synchronous", "off")?;
                    // Writes often meet a busy file.
                    connection.busy_timeout(Duration::from_millis(20))?;
                    let write = writers.lane(lane, async |fence| {
                        match write(&mut connection, behavior, statement, fence) {
                            Err(error)
                                if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) =>
                            {
                                Ok(Attempt::Conflict)
                            }
                            result => result.context("a write"),
                        }
                    });
                    tokio::runtime::Builder::new_current_thread().build()?.block_on(write)
                })
            })
            .collect();
        lanes.into_iter().try_for_each(|lane| lane.join().expect("a writer"))
    })?;
    let (trace, total): (String, u64) =
        connection.query_row("SELECT trace, total FROM data", (), |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })?;
    writers.check(&trace, total)
}

#[test]
fn nothing_stale_goes_in() -> Result<()> {
    for journal in ["WAL", "DELETE"] {
        for behavior in [TransactionBehavior::Deferred, TransactionBehavior::Immediate] {
            crowd(journal, behavior, false)?;
            crowd(journal, behavior, true)?;
        }
    }
    Ok(())
}

/// A misspelt column is an error of the statement, and not a text that looks like a fence.
#[test]
fn a_misspelt_column_is_an_error() -> Result<()> {
    let connection = Connection::open_in_memory()?;
    connection.execute_batch("CREATE TABLE data (id TEXT PRIMARY KEY, fence INTEGER)")?;
    for (key, fence) in [("id", "fense"), ("idd", "fence")] {
        let statement = FenceStatement::for_column(Dialect::Sqlite, "data", key, fence)?;
        let error = connection.prepare(statement.sql()).unwrap_err().to_string();
        ensure!(error.contains("no such column"), "{error}");
    }
    Ok(())
}
