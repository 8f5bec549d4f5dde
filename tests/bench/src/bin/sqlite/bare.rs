//! The same statements on a bare connection, one transaction for each operation.

use std::path::Path;
use std::time::Duration;

use anyhow::{Result, ensure};
use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior, params};

macro_rules! sql {
    ($name:literal) => {
        include_str!(concat!("../../../../../crates/syncguard-sqlite/src/sql/", $name, ".sql"))
    };
}

pub(crate) struct Bare {
    connection: Connection,
    ids: u64,
}

impl Bare {
    pub(crate) fn open(path: &Path, synchronous: &str) -> Result<Self> {
        let connection = Connection::open(path)?;
        connection.busy_timeout(Duration::from_secs(10))?;
        connection.query_row("PRAGMA journal_mode = WAL", (), |_| Ok(()))?;
        connection.pragma_update(None, "synchronous", synchronous)?;
        let made: i64 =
            connection.query_row("SELECT count(*) FROM sqlite_schema", (), |row| row.get(0))?;
        if made == 0 {
            connection.execute_batch(sql!("schema"))?;
        }
        // One for each process.
        Ok(Self { connection, ids: u64::from(std::process::id()) << 32 })
    }

    pub(crate) fn cycle(&mut self, key: &str) -> Result<()> {
        self.ids += 1;
        let id = format!("{:022}", self.ids);
        self.acquire(key, &id)?;
        self.release(&id)
    }

    fn begin(&mut self) -> Result<Transaction<'_>> {
        Ok(self.connection.transaction_with_behavior(TransactionBehavior::Immediate)?)
    }

    fn acquire(&mut self, key: &str, id: &str) -> Result<()> {
        let transaction = self.begin()?;
        let one = |sql, name| -> Result<Option<i64>> {
            Ok(transaction.prepare_cached(sql)?.query_row([name], |row| row.get(2)).optional()?)
        };
        ensure!(one(sql!("by_key"), key)?.is_none());
        ensure!(one(sql!("by_lock_id"), id)?.is_none());
        let last = transaction
            .prepare_cached(sql!("counter"))?
            .query_row([key], |row| row.get::<_, i64>(0))
            .optional()?;
        let fence = last.unwrap_or(0) + 1;
        transaction.prepare_cached(sql!("set_counter"))?.execute(params![key, fence])?;
        let (boot, tag) = ("00000000-0000-0000-0000-000000000000", format!("{fence:015} bench/1"));
        let lock = params![key, id, fence, boot, 1_000_000, 1_030_000, 1_800_000_000_000_i64, tag];
        transaction.prepare_cached(sql!("set_lock"))?.execute(lock)?;
        Ok(transaction.commit()?)
    }

    fn release(&mut self, id: &str) -> Result<()> {
        let transaction = self.begin()?;
        let key: String =
            transaction.prepare_cached(sql!("by_lock_id"))?.query_row([id], |row| row.get(0))?;
        transaction.prepare_cached(sql!("delete_lock"))?.execute([key])?;
        Ok(transaction.commit()?)
    }
}
