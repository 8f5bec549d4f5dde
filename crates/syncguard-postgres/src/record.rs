//! A stored lock: the columns that statements answer with, and what makes sense in them.

use std::error::Error;

use syncguard_core::authoring::hash_key;
use syncguard_core::authoring::{corrupt_record, holder_in, is_clearable};
use syncguard_core::contract::is_live;
use syncguard_core::{Fence, Key, LockError, LockId, LockInfo, NotHeld, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::error;

/// The columns of a record `l`; every statement puts the server's time behind them.
pub(crate) const COLUMNS: &str =
    "l.key, l.lock_id, l.expires_at_ms, l.acquired_at_ms, l.fence, l.user_key";

/// The holder of a record `l`, also where its table has no column for it.
pub(crate) const HOLDER: &str =
    "(pg_catalog.to_jsonb(l) {->>} 'holder'::pg_catalog.text)";

/// No record.
pub(crate) const NO_COLUMNS: &str = "NULL::pg_catalog.text, NULL::pg_catalog.text, NULL::bigint, \
     NULL::bigint, NULL::pg_catalog.text, NULL::pg_catalog.text";

/// Whether a record `l` makes sense; one that does not is never overwritten and never deleted.
/// [`Record`] checks the same, and more of the key.
pub(crate) const INTACT: &str = "(\
     l.expires_at_ms {>=} 0 AND l.expires_at_ms {<=} 9007199254740991 \
     AND l.acquired_at_ms {>=} 0 AND l.acquired_at_ms {<=} 9007199254740991 \
     AND l.fence {~} '^[0-9]{15}$' AND l.lock_id {~} '^[A-Za-z0-9_-]{22}$' \
     AND pg_catalog.octet_length(l.user_key) {>=} 1 AND pg_catalog.octet_length(l.user_key) {<=} 512)";

/// A stored lock, as a statement saw it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) acquired_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Fence,
    /// The server's time when it looked.
    pub(crate) now: Timestamp,
}

impl Record {
    /// The record in the columns from `first` on, if there is one.
    pub(crate) fn from_row(row: &Row, first: usize) -> Result<Option<Self>, LockError> {
        let Some(storage_key) = column::<Option<&str>>(row, first)? else {
            return Ok(None);
        };
        let corrupt = |problem| corrupt_record(storage_key, problem);
        let timestamp = |index, problem| {
            let millis = u64::try_from(column::<i64>(row, index)?).map_err(|_| corrupt(problem))?;
            Timestamp::from_millis(millis).map_err(|_| corrupt(problem))
        };
        Ok(Some(Self {
            key: Key::new(column::<&str>(row, first + 5)?)
                .map_err(|_| corrupt("user_key is not a key"))?,
            lock_id: LockId::new(column::<&str>(row, first + 1)?)
                .map_err(|_| corrupt("lock_id is not a lock id"))?,
            expires_at: timestamp(first + 2, "expires_at_ms is not a time")?,
            acquired_at: timestamp(first + 3, "acquired_at_ms is not a time")?,
            fence: column::<&str>(row, first + 4)?
                .parse()
                .map_err(|_| corrupt("fence is not 15 digits"))?,
            now: timestamp(first + 6, "the server's clock is out of range")?,
        }))
    }

    pub(crate) fn is_live(&self) -> bool {
        is_live(self.expires_at, self.now)
    }

    /// Whether it has been expired for as long as a clean-up asks for.
    pub(crate) fn is_stale(&self) -> bool {
        is_clearable(self.expires_at, self.now)
    }

    /// Why a statement that looks for a live lock did not touch this one.
    pub(crate) fn not_held(record: Option<&Self>) -> NotHeld {
        match record {
            Some(expired) if !expired.is_live() => NotHeld::Expired,
            // Live when the statement began, and gone when its turn came.
            _ => NotHeld::NotFound,
        }
    }

    /// The record in a row of a look-up, whose holder stands behind the server's time.
    pub(crate) fn info_from_row(row: &Row) -> Result<Option<LockInfo>, LockError> {
        let Some(record) = Self::from_row(row, 0)?.filter(Self::is_live) else { return Ok(None) };
        let holder = holder_in(column(row, 7)?, record.fence);
        Ok(Some(record.into_info().with_holder(holder)))
    }

    fn into_info(self) -> LockInfo {
        LockInfo::new(self.key, self.lock_id, self.acquired_at, self.expires_at, self.fence)
    }
}

/// A time that a statement has just written.
pub(crate) fn written_time(millis: i64) -> Result<Timestamp, LockError> {
    u64::try_from(millis)
        .map_err(|_| LockError::internal("the server's clock is before 1970"))
        .and_then(Timestamp::from_millis)
}

/// Whether a counter can be moved on.
pub(crate) fn check_counter(storage_key: &str, counter: i64) -> Result<(), LockError> {
    let counter = u64::try_from(counter).map_err(|_| {
        LockError::internal(format!(
            "corrupt fence counter {}: it is negative",
            hash_key(storage_key)
        ))
    })?;
    if counter >= Fence::MAX.get() { Err(Fence::exhausted()) } else { Ok(()) }
}

/// A column that is not NULL, whatever it holds.
pub(crate) struct Anything;

impl FromSql<'_> for Anything {
    fn from_sql(_: &Type, _: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// One column; the types are those of our own statements.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, LockError> {
    row.try_get(index).map_err(|error| error::bad_answer(&error))
}
