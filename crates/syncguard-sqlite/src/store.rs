//! The two tables, row by row. Nothing here begins or ends a transaction.

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};
use syncguard_core::{Fence, Key, LockError, LockId, hash_key};

use crate::error::Failure;
use crate::record::{BadRow, Record};

/// The tables behind a connection.
#[derive(Clone, Copy)]
pub(crate) struct Store<'c>(pub(crate) &'c Connection);

impl Store<'_> {
    /// How many statements there are below.
    pub(crate) const STATEMENTS: usize = 6;

    pub(crate) fn by_key(self, key: &Key) -> Result<Option<Record>, Failure> {
        self.one(include_str!("sql/by_key.sql"), key.expose())
    }

    pub(crate) fn by_lock_id(self, lock_id: LockId) -> Result<Option<Record>, Failure> {
        self.one(include_str!("sql/by_lock_id.sql"), lock_id.expose())
    }

    fn one(self, sql: &str, name: &str) -> Result<Option<Record>, Failure> {
        let mut statement = self.prepare(sql)?;
        let mut rows = statement.query([name])?;
        let found = rows.next()?.map(Record::from_row).transpose();
        found.map_err(|bad| match bad {
            BadRow::Corrupt(error) => Failure::Refused(error),
            BadRow::Sqlite(error) => error.into(),
        })
    }

    /// The last fence of a key.
    pub(crate) fn counter(self, key: &Key) -> Result<Fence, Failure> {
        let mut statement = self.prepare(include_str!("sql/counter.sql"))?;
        let number = |row: &Row<'_>| row.get::<_, i64>(0);
        let Some(last) = statement.query_row([key.expose()], number).optional()? else {
            return Ok(Fence::ZERO);
        };
        let last = u64::try_from(last).map_err(|_| corrupt_counter(key, "it is negative"))?;
        // A counter at the end of the range is full, and not corrupt.
        Ok(Fence::new(last).map_err(|_| Fence::exhausted())?)
    }

    pub(crate) fn set_counter(self, key: &Key, fence: Fence) -> Result<(), Failure> {
        let mut statement = self.prepare(include_str!("sql/set_counter.sql"))?;
        statement.execute(params![key.expose(), fence.as_i64()])?;
        Ok(())
    }

    /// Writes the lock of a key over what was there.
    pub(crate) fn set_lock(self, record: &Record) -> Result<(), Failure> {
        let millis = |time: syncguard_core::Timestamp| time.as_millis().cast_signed();
        self.prepare(include_str!("sql/set_lock.sql"))?.execute(params![
            record.key.expose(),
            record.lock_id.expose(),
            record.fence.as_i64(),
            &*record.boot,
            millis(record.acquired),
            millis(record.expires),
            record.offset,
        ])?;
        Ok(())
    }

    pub(crate) fn delete_lock(self, key: &Key) -> Result<(), Failure> {
        self.prepare(include_str!("sql/delete_lock.sql"))?.execute([key.expose()])?;
        Ok(())
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, rusqlite::Error> {
        self.0.prepare_cached(sql)
    }
}

/// A counter that makes no sense.
pub(crate) fn corrupt_counter(key: &Key, problem: &'static str) -> LockError {
    let hash = hash_key(key.expose());
    LockError::internal(format!("corrupt fence counter {hash}: {problem}"))
}
