//! Fenced writes: data in SQLite under locks of any store.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rusqlite::types::Value;
use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use syncguard::Fence;
use syncguard::fenced::{Dialect, FenceStatement, check, create_table};
use tempfile::TempDir;

use crate::support::fences::{Bound, Column, cases, printed};
use crate::support::writers::{LANES, Outcome, Writers};

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
) -> rusqlite::Result<Outcome> {
    let transaction = connection.transaction_with_behavior(behavior)?;
    let answer: i64 =
        transaction.query_row(statement.sql(), ("it", fence.as_i64()), |row| row.get(0))?;
    if check(fence, answer).is_err() {
        return Ok(Outcome::Stale);
    }
    let total: i64 = transaction.query_row("SELECT total FROM data", (), |row| row.get(0))?;
    let sql = "UPDATE data SET total = ?1, trace = trace || ?2 || ','";
    transaction.execute(sql, (total + 1, fence.get().to_string()))?;
    transaction.commit()?;
    Ok(Outcome::Written)
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
                                Ok(Outcome::Conflict)
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

fn bound(form: Bound, fence: u64) -> Value {
    let digits = format!("{fence:015}");
    match form {
        Bound::Integer => Value::Integer(fence.cast_signed()),
        Bound::Digits15 => Value::Text(digits),
        Bound::Digits => Value::Text(fence.to_string()),
        Bound::Float => Value::Real(fence.to_string().parse().expect("a number")),
        Bound::Blob => Value::Blob(digits.into_bytes()),
        Bound::Null => Value::Null,
        Bound::Word => Value::Text("many".to_owned()),
    }
}

/// SQLite takes each type of value in each column, and orders texts and blobs behind all numbers.
#[test]
fn whatever_is_bound_no_late_writer_passes() -> Result<()> {
    let page = include_str!("../../../crates/syncguard/src/guide/fencing.md");
    let of_page = printed(page, "UPDATE accounts SET balance = $2");
    let of_page = format!(
        "{} RETURNING CAST(fence AS INTEGER)",
        of_page.replace("$3", "CAST(?3 AS INTEGER)")
    );
    let rows = FenceStatement::for_rows(Dialect::Sqlite, "accounts")?;
    let column = FenceStatement::for_column(Dialect::Sqlite, "accounts", "resource", "fence")?;
    let wide = ["INTEGER", "BIGINT", "NUMERIC", "DECIMAL(15, 0)", "DOUBLE", "FLOAT", "TINYINT", ""];
    let texts = ["TEXT", "VARCHAR(20)", "BLOB"];
    let strict = ["INTEGER", "REAL", "TEXT", "BLOB", "ANY"];
    let tables = wide.map(|kind| (kind, "", Column::Wide)).into_iter();
    let tables = tables.chain(texts.map(|kind| (kind, "", Column::Other)));
    for (kind, options, wide) in tables.chain(strict.map(|kind| (kind, "STRICT", Column::Other))) {
        let db = Connection::open_in_memory()?;
        db.execute_batch(&format!(
            "CREATE TABLE accounts (resource TEXT PRIMARY KEY, balance INTEGER, fence {kind}) {options}"
        ))?;
        for (name, sql) in [("rows", rows.sql()), ("column", column.sql()), ("page", &of_page)] {
            // The page's own statement is for columns of numbers.
            if name == "page" && (wide == Column::Other || kind.is_empty()) {
                continue;
            }
            let sql = sql.replace("WHERE id = $1", "WHERE resource = ?1").replace("$2", "?2");
            for case in cases() {
                db.execute_batch(match name {
                    "rows" => "DELETE FROM accounts",
                    _ => "REPLACE INTO accounts VALUES ('it', 5, NULL)",
                })?;
                if name == "page" {
                    db.execute_batch("UPDATE accounts SET fence = 0")?;
                }
                let said = case.writes.map(|(form, fence)| {
                    let value = bound(form, fence);
                    let answer = if name == "page" {
                        db.query_row(&sql, ("it", 5, value), |row| row.get::<_, i64>(0))
                    } else {
                        db.query_row(&sql, ("it", value), |row| row.get(0))
                    };
                    let answer = answer.ok().map(i64::cast_unsigned);
                    let stored = "SELECT coalesce(CAST(max(fence) AS INTEGER), 0) FROM accounts";
                    let stored: i64 = db.query_row(stored, (), |row| row.get(0)).expect("a fence");
                    (answer, stored.cast_unsigned())
                });
                case.judge(&format!("{name} in {kind} {options}"), wide, said)?;
            }
        }
    }
    // The bytes of a name are the name.
    let db = Connection::open_in_memory()?;
    db.execute_batch(&create_table(Dialect::Sqlite, "accounts")?)?;
    for key in [Value::Text("it".to_owned()), Value::Blob(b"it".to_vec())] {
        db.query_row(rows.sql(), (key, 9), |_| Ok(()))?;
    }
    ensure!(db.query_row("SELECT count(*) FROM accounts", (), |row| row.get::<_, i64>(0))? == 1);
    Ok(())
}
