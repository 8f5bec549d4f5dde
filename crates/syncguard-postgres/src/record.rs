//! A stored lock: the columns in the answers of statements, and their valid values.

use std::error::Error;

use syncguard_core::authoring::hash_key;
use syncguard_core::authoring::{corrupt_record, holder_in, is_clearable};
use syncguard_core::contract::is_live;
use syncguard_core::{Fence, Key, LockError, LockId, LockInfo, NotHeld, Timestamp};
use tokio_postgres::Row;
use tokio_postgres::types::{FromSql, Type};

use crate::error;

/// The test of a fence without a regular expression, which would be a twentieth of the work of a release.
macro_rules! columns_are_valid {
    () => {
        "l.expires_at_ms {>=} 0 AND l.expires_at_ms {<=} 9007199254740991 \
         AND l.acquired_at_ms {>=} 0 AND l.acquired_at_ms {<=} 9007199254740991 \
         AND pg_catalog.octet_length(l.fence) {=} 15 \
         AND pg_catalog.octet_length(pg_catalog.translate(l.fence, '0123456789', '')) {=} 0 \
         AND pg_catalog.octet_length(l.user_key) {>=} 1 AND pg_catalog.octet_length(l.user_key) {<=} 512"
    };
}

/// The columns of a record `l`; every statement adds the server's time, `now_ms`.
pub(crate) const COLUMNS: &str =
    "l.key, l.lock_id, l.expires_at_ms, l.acquired_at_ms, l.fence, l.user_key";

/// The holder of a record `l`. If the table has no column for holders, the value is null.
pub(crate) const HOLDER: &str = "(pg_catalog.to_jsonb(l) {->>} 'holder'::pg_catalog.text)";

/// The same columns without a record.
pub(crate) const NO_COLUMNS: &str = "NULL::pg_catalog.text AS key, NULL::pg_catalog.text AS lock_id, \
     NULL::bigint AS expires_at_ms, NULL::bigint AS acquired_at_ms, NULL::pg_catalog.text AS fence, \
     NULL::pg_catalog.text AS user_key";

/// True if a record `l` that was found by a valid lock id is valid; an invalid record is never overwritten and never
/// deleted. [`Record`] checks the same, and more of the key.
pub(crate) const INTACT_BY_ID: &str = concat!("(", columns_are_valid!(), ")");

/// The same of a record that was found otherwise.
pub(crate) const INTACT: &str =
    concat!("(", columns_are_valid!(), " AND l.lock_id {~} '^[A-Za-z0-9_-]{22}$')");

/// A stored lock, as a statement saw it.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) acquired_at: Timestamp,
    pub(crate) expires_at: Timestamp,
    pub(crate) fence: Fence,
    /// The server's time when it read the record.
    pub(crate) now: Timestamp,
}

impl Record {
    /// The record in a row, if there is one.
    pub(crate) fn from_row(row: &Row) -> Result<Option<Self>, LockError> {
        let Some(storage_key) = column::<Option<&str>>(row, "key")? else {
            return Ok(None);
        };
        let corrupt = |problem| corrupt_record(storage_key, problem);
        let timestamp = |name, problem| {
            let millis = u64::try_from(column::<i64>(row, name)?).map_err(|_| corrupt(problem))?;
            Timestamp::from_millis(millis).map_err(|_| corrupt(problem))
        };
        let key = Key::new(column::<&str>(row, "user_key")?)
            .map_err(|_| corrupt("user_key is not a key"))?;
        // Keys are too short to be hashed in this name.
        if key.expose() != storage_key {
            return Err(corrupt("user_key is that of another row"));
        }
        Ok(Some(Self {
            key,
            lock_id: LockId::new(column::<&str>(row, "lock_id")?)
                .map_err(|_| corrupt("lock_id is not a lock id"))?,
            expires_at: timestamp("expires_at_ms", "expires_at_ms is not a time")?,
            acquired_at: timestamp("acquired_at_ms", "acquired_at_ms is not a time")?,
            fence: column::<&str>(row, "fence")?
                .parse()
                .map_err(|_| corrupt("fence is not 15 digits"))?,
            now: timestamp("now_ms", "the server's clock is out of range")?,
        }))
    }

    pub(crate) fn is_live(&self) -> bool {
        is_live(self.expires_at, self.now)
    }

    /// True if the record has been expired long enough to be cleaned up.
    pub(crate) fn is_stale(&self) -> bool {
        is_clearable(self.expires_at, self.now)
    }

    /// The reason why a statement for live locks did not touch this record.
    pub(crate) fn not_held(record: Option<&Self>) -> NotHeld {
        match record {
            Some(expired) if !expired.is_live() => NotHeld::Expired,
            // The lock was live when the statement began, and gone when its turn came.
            _ => NotHeld::NotFound,
        }
    }

    /// The record in a row of a look-up.
    pub(crate) fn info_from_row(row: &Row) -> Result<Option<LockInfo>, LockError> {
        let Some(record) = Self::from_row(row)?.filter(Self::is_live) else { return Ok(None) };
        let holder = holder_in(column(row, "holder")?, record.fence);
        Ok(Some(record.into_info().with_holder(holder)))
    }

    fn into_info(self) -> LockInfo {
        LockInfo::new(self.key, self.lock_id, self.acquired_at, self.expires_at, self.fence)
    }
}

/// Reads a time that a statement has just written.
pub(crate) fn written_time(millis: i64) -> Result<Timestamp, LockError> {
    u64::try_from(millis)
        .map_err(|_| LockError::internal("the server's clock is before 1970"))
        .and_then(Timestamp::from_millis)
}

/// Returns an error if a counter cannot be raised.
pub(crate) fn check_counter(storage_key: &str, counter: i64) -> Result<(), LockError> {
    let counter = u64::try_from(counter).map_err(|_| {
        LockError::internal(format!(
            "corrupt fence counter {}: it is negative",
            hash_key(storage_key)
        ))
    })?;
    if counter >= Fence::MAX.get() { Err(Fence::exhausted()) } else { Ok(()) }
}

/// The value of a column that is not NULL, of any type.
pub(crate) struct AnyValue;

impl FromSql<'_> for AnyValue {
    fn from_sql(_: &Type, _: &[u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        Ok(Self)
    }

    fn accepts(_: &Type) -> bool {
        true
    }
}

/// Reads one column; the names and the types are those of our own statements.
pub(crate) fn column<'a, T: FromSql<'a>>(row: &'a Row, name: &str) -> Result<T, LockError> {
    row.try_get(name).map_err(|error| error::bad_answer(&error))
}
