//! Reads and writes rows of the two tables. Never begins or ends a transaction.

use std::borrow::Cow;

use rusqlite::{CachedStatement, Connection, OptionalExtension as _, Row, params};
use syncguard_core::authoring::{bound_holder, hash_key};
use syncguard_core::contract::Holder;
use syncguard_core::inventory::{FenceCounter, ListRequest, Page};
use syncguard_core::{Fence, Key, LockError, LockId, LockInfo};

use crate::clock::Moment;
use crate::error::Failure;
use crate::record::{BadRow, Record};

/// The tables behind a connection.
#[derive(Clone, Copy)]
pub(crate) struct Store<'c>(pub(crate) &'c Connection);

impl Store<'_> {
    /// The number of statements below.
    pub(crate) const STATEMENTS: usize = 8;

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

    /// Returns the last fence of a key, if the key was ever locked.
    pub(crate) fn counter(self, key: &Key) -> Result<Option<Fence>, Failure> {
        let mut statement = self.prepare(include_str!("sql/counter.sql"))?;
        let number = |row: &Row<'_>| row.get::<_, i64>(0);
        let Some(last) = statement.query_row([key.expose()], number).optional()? else {
            return Ok(None);
        };
        let last = u64::try_from(last).map_err(|_| corrupt_counter(key, "it is negative"))?;
        // A counter at the end of the range is exhausted, not corrupt.
        Ok(Some(Fence::new(last).map_err(|_| Fence::exhausted())?))
    }

    pub(crate) fn set_counter(self, key: &Key, fence: Fence) -> Result<(), Failure> {
        let mut statement = self.prepare(include_str!("sql/set_counter.sql"))?;
        statement.execute(params![key.expose(), fence.as_i64()])?;
        Ok(())
    }

    /// Writes the lock of a key over the lock before it. Without a new holder, the row keeps its holder.
    pub(crate) fn set_lock(self, record: &Record, holder: Option<&Holder>) -> Result<(), Failure> {
        let millis = |time: syncguard_core::Timestamp| time.as_millis().cast_signed();
        self.prepare(include_str!("sql/set_lock.sql"))?.execute(params![
            record.key.expose(),
            record.lock_id.expose(),
            record.fence.as_i64(),
            &*record.boot,
            millis(record.acquired),
            millis(record.expires),
            record.offset,
            holder.map(|holder| bound_holder(holder, record.fence)),
        ])?;
        Ok(())
    }

    pub(crate) fn delete_lock(self, key: &Key) -> Result<(), Failure> {
        self.prepare(include_str!("sql/delete_lock.sql"))?.execute([key.expose()])?;
        Ok(())
    }

    /// Reads a page of the live locks.
    pub(crate) fn locks(
        self,
        request: &ListRequest,
        now: &Moment,
    ) -> Result<Page<LockInfo>, Failure> {
        let mut page = Page::new(None);
        page.next = self.rows(include_str!("sql/list_locks.sql"), request, |row| {
            match Record::from_row(row) {
                Ok(record) if record.is_live(now) => page.entries.push(record.into_info()?),
                Ok(_) => {}
                Err(BadRow::Corrupt(_)) => page.corrupt.push(hash_key(&name(row)?)),
                Err(BadRow::Sqlite(error)) => return Err(error.into()),
            }
            Ok(())
        })?;
        Ok(page)
    }

    /// Reads a page of the counters.
    pub(crate) fn counters(self, request: &ListRequest) -> Result<Page<FenceCounter>, Failure> {
        let mut page = Page::new(None);
        page.next = self.rows(include_str!("sql/list_counters.sql"), request, |row| {
            let last = Fence::try_from(row.get::<_, i64>(1)?);
            let key = row.get_ref(0)?.as_str().unwrap_or_default();
            page.push(&name(row)?, last.and_then(|last| FenceCounter::stored(key, last)));
            Ok(())
        })?;
        Ok(page)
    }

    /// Calls `take` with each row of a page, and returns the request for the next page.
    fn rows(
        self,
        sql: &str,
        request: &ListRequest,
        mut take: impl FnMut(&Row<'_>) -> Result<(), Failure>,
    ) -> Result<Option<ListRequest>, Failure> {
        let mut statement = self.prepare(sql)?;
        let place = request.expose_place().unwrap_or_default();
        let bounds = params![request.expose_start(), place, request.expose_end()];
        let mut rows = statement.query(bounds)?;
        let mut left = request.page_size();
        while let Some(row) = rows.next()? {
            take(row)?;
            left = left.saturating_sub(1);
            // The next page begins behind a key that is text.
            if left == 0
                && let Ok(key) = row.get_ref(0)?.as_str()
            {
                return Ok(Some(request.behind(key)));
            }
        }
        Ok(None)
    }

    fn prepare(&self, sql: &str) -> Result<CachedStatement<'_>, rusqlite::Error> {
        self.0.prepare_cached(sql)
    }
}

/// Returns the first column, which is the key. Another program can write text that is not UTF-8.
fn name<'r>(row: &'r Row<'_>) -> Result<Cow<'r, str>, rusqlite::Error> {
    Ok(String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?))
}

/// The error for a corrupt counter.
pub(crate) fn corrupt_counter(key: &Key, problem: &'static str) -> LockError {
    let hash = hash_key(key.expose());
    LockError::internal(format!("corrupt fence counter {hash}: {problem}"))
}

#[cfg(test)]
mod tests {
    use syncguard_core::{Timestamp, Ttl};

    use super::*;
    use crate::schema::{MIGRATIONS, migrate};

    /// The statement by which a client that knows no holders writes a lock.
    const WITHOUT_HOLDER: &str = "INSERT INTO locks (key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms)
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)
        ON CONFLICT (key) DO UPDATE SET
            lock_id = excluded.lock_id, fence = excluded.fence, boot = excluded.boot,
            acquired_ms = excluded.acquired_ms, expires_ms = excluded.expires_ms, offset_ms = excluded.offset_ms";

    #[test]
    fn a_holder_counts_for_the_lock_that_it_was_written_with() {
        let mut connection = Connection::open_in_memory().unwrap();
        migrate(&mut connection, MIGRATIONS).unwrap();
        let store = Store(&connection);
        let (key, id) = (Key::new("key").unwrap(), LockId::generate().unwrap());
        let (ttl, at) = (Ttl::from_millis(1000).unwrap(), Timestamp::from_millis(5000).unwrap());
        let now = Moment { boot: "a".into(), at, offset: 0 };
        let column = || {
            let sql = "SELECT holder FROM locks";
            connection.query_row(sql, (), |row| row.get::<_, Option<String>>(0)).unwrap()
        };
        let is_polled = || store.by_key(&key).unwrap().unwrap().is_polled;

        let lock = Record::new(key.clone(), id, Fence::new(1).unwrap(), ttl, &now).unwrap();
        let holder = Holder::new("web 1").unwrap().with_note("run 4").unwrap();
        store.set_lock(&lock, Some(&holder)).unwrap();
        store.set_lock(&lock.extended(ttl, &now).unwrap(), None).unwrap();
        assert_eq!(column().as_deref(), Some("000000000000001 web 1\nrun 4"));
        assert!(!is_polled());
        assert!(!lock.contention(&now).is_polled);

        connection
            .execute(WITHOUT_HOLDER, params!["key", id.expose(), 2, "a", 5000, 6000, 0])
            .unwrap();
        assert!(is_polled(), "{:?}", column());
        assert!(store.by_lock_id(id).unwrap().unwrap().contention(&now).is_polled);

        let lock = Record::new(key.clone(), id, Fence::new(3).unwrap(), ttl, &now).unwrap();
        store.set_lock(&lock, Some(&Holder::unnamed())).unwrap();
        assert_eq!(column().as_deref(), Some("000000000000003 "));
        assert!(!is_polled());
    }
}
