//! Stored locks: their columns and the checks of these.

use std::sync::Arc;

use rusqlite::Row;
use syncguard_core::authoring::{corrupt_record, holder_in, is_clearable, is_polled};
use syncguard_core::contract::{Acquired, is_live};
use syncguard_core::{
    Contention, Fence, Key, LockError, LockId, LockInfo, NotHeld, Timestamp, Ttl,
};

use crate::clock::{Moment, to_wall};

/// A stored lock.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) key: Key,
    pub(crate) lock_id: LockId,
    pub(crate) fence: Fence,
    pub(crate) boot: Arc<str>,
    /// The time of acquisition in milliseconds of the boot.
    pub(crate) acquired: Timestamp,
    /// The expiry in milliseconds of the boot.
    pub(crate) expires: Timestamp,
    /// The milliseconds to add to these times for Unix time.
    pub(crate) offset: i64,
    /// True if a client that polls has written the record.
    pub(crate) is_polled: bool,
    /// The column of the holder, which only look-ups and listings parse.
    holder_column: Option<Box<str>>,
}

/// A row that is corrupt or could not be read.
pub(crate) enum BadRow {
    Corrupt(LockError),
    Sqlite(rusqlite::Error),
}

impl From<rusqlite::Error> for BadRow {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sqlite(error)
    }
}

impl Record {
    /// Makes the record of a lock that is granted now. Fails if its expiry does not fit in a timestamp.
    pub(crate) fn new(
        key: Key,
        lock_id: LockId,
        fence: Fence,
        ttl: Ttl,
        now: &Moment,
    ) -> Result<Self, LockError> {
        let record = Self {
            key,
            lock_id,
            fence,
            boot: Arc::clone(&now.boot),
            acquired: now.at,
            expires: now.at.plus(ttl)?,
            offset: now.offset,
            is_polled: false,
            holder_column: None,
        };
        // Callers get the expiry as Unix time, which must fit as well.
        record.expires_at()?;
        Ok(record)
    }

    /// Returns the lock with a new expiry, which always differs from the old one. The lock keeps its time of
    /// acquisition, and its times count from this boot.
    pub(crate) fn extended(&self, ttl: Ttl, now: &Moment) -> Result<Self, LockError> {
        let mut record = Self { expires: now.at.plus(ttl)?, ..self.clone() };
        if record.boot != now.boot {
            let acquired = self.acquired_at()?.as_millis();
            let acquired = Timestamp::from_millis(acquired.saturating_add_signed(-now.offset))?;
            record = Self { boot: Arc::clone(&now.boot), acquired, offset: now.offset, ..record };
        }
        if record.expires_at()? == self.expires_at()? {
            record.expires = record.expires.plus(Ttl::MIN)?;
            record.expires_at()?;
        }
        Ok(record)
    }

    /// Reads the record from a row of `key, lock_id, fence, boot, acquired_ms, expires_ms, offset_ms, holder`.
    pub(crate) fn from_row(row: &Row<'_>) -> Result<Self, BadRow> {
        let storage_key = String::from_utf8_lossy(bytes(row, 0)?);
        let corrupt = |problem| BadRow::Corrupt(corrupt_record(&storage_key, problem));
        let text =
            |index, problem| str::from_utf8(bytes(row, index)?).map_err(|_| corrupt(problem));
        let number =
            |index, problem| u64::try_from(row.get::<_, i64>(index)?).map_err(|_| corrupt(problem));
        let time = |index, problem| {
            Timestamp::from_millis(number(index, problem)?).map_err(|_| corrupt(problem))
        };
        let fence = Fence::new(number(2, "fence is not a fence")?)
            .map_err(|_| corrupt("fence is not a fence"))?;
        let holder = row.get_ref(7)?.as_str_or_null().unwrap_or_default();
        let record = Self {
            key: Key::new(text(0, "key is not UTF-8")?).map_err(|_| corrupt("key is not a key"))?,
            lock_id: LockId::new(text(1, "lock_id is not UTF-8")?)
                .map_err(|_| corrupt("lock_id is not a lock id"))?,
            fence,
            boot: text(3, "boot is not UTF-8")?.into(),
            acquired: time(4, "acquired_ms is not a time")?,
            expires: time(5, "expires_ms is not a time")?,
            offset: row.get(6)?,
            is_polled: is_polled(holder, fence),
            holder_column: holder.map(Into::into),
        };
        record.acquired_at().map_err(|_| corrupt("offset_ms gives no valid time"))?;
        record.expires_at().map_err(|_| corrupt("offset_ms gives no valid time"))?;
        Ok(record)
    }

    pub(crate) fn is_live(&self, now: &Moment) -> bool {
        self.end(now).is_some_and(|(expires, now)| is_live(expires, now))
    }

    /// Returns the answer for a rival that wants the key.
    pub(crate) fn contention(&self, now: &Moment) -> Contention {
        let until = |(expires, now)| Contention::until(expires, now);
        self.end(now).map_or_else(Contention::default, until).with_polled(self.is_polled)
    }

    /// Returns whether the lock expired long enough ago to be deleted.
    pub(crate) fn is_clearable(&self, now: &Moment) -> bool {
        self.end(now).is_none_or(|(expires, now)| is_clearable(expires, now))
    }

    /// Returns the expiry and the current time by the same clock; `None` if the lock was taken before this
    /// boot began, which has ended its holder.
    fn end(&self, now: &Moment) -> Option<(Timestamp, Timestamp)> {
        if self.boot == now.boot {
            return Some((self.expires, now.at));
        }
        let began = u64::try_from(now.offset).unwrap_or(0);
        if self.acquired_at().ok()?.as_millis() < began {
            return None;
        }
        Some((self.expires_at().ok()?, now.wall().ok()?))
    }

    /// Returns the expiry that callers get: by the wall clock as it was when the lock was taken.
    pub(crate) fn expires_at(&self) -> Result<Timestamp, LockError> {
        to_wall(self.expires, self.offset)
    }

    fn acquired_at(&self) -> Result<Timestamp, LockError> {
        to_wall(self.acquired, self.offset)
    }

    /// Returns the reason why a release or an extend did nothing.
    pub(crate) fn not_held(record: Option<&Self>) -> NotHeld {
        record.map_or(NotHeld::NotFound, |_| NotHeld::Expired)
    }

    pub(crate) fn acquired(&self) -> Result<Acquired, LockError> {
        Ok(Acquired::new(self.lock_id, self.expires_at()?, self.fence))
    }

    pub(crate) fn into_info(self) -> Result<LockInfo, LockError> {
        let (acquired_at, expires_at) = (self.acquired_at()?, self.expires_at()?);
        let info = LockInfo::new(self.key, self.lock_id, acquired_at, expires_at, self.fence);
        Ok(info.with_holder(holder_in(self.holder_column.as_deref(), self.fence)))
    }
}

fn bytes<'r>(row: &'r Row<'_>, index: usize) -> Result<&'r [u8], rusqlite::Error> {
    Ok(row.get_ref(index)?.as_bytes()?)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const WALL: i64 = 1_800_000_000_000;

    pub(crate) fn moment(boot: &str, at: u64, offset: i64) -> Moment {
        Moment { boot: boot.into(), at: Timestamp::from_millis(at).unwrap(), offset }
    }

    pub(crate) fn record(now: &Moment) -> Record {
        let ttl = Ttl::from_millis(10_000).unwrap();
        let (key, lock_id) = (Key::new("key").unwrap(), LockId::generate().unwrap());
        Record::new(key, lock_id, Fence::new(1).unwrap(), ttl, now).unwrap()
    }

    #[test]
    fn a_step_of_the_wall_clock_ends_nothing_and_revives_nothing() {
        let record = record(&moment("a", 50_000, WALL));
        for step in [-86_400_000, 0, 86_400_000] {
            assert!(record.is_live(&moment("a", 60_999, WALL + step)));
            assert!(!record.is_live(&moment("a", 61_000, WALL + step)));
            assert!(!record.is_clearable(&moment("a", 62_999, WALL + step)));
            assert!(record.is_clearable(&moment("a", 63_000, WALL + step)));
        }
        assert_eq!(record.expires_at().unwrap().as_millis(), 1_800_000_060_000);
    }

    #[test]
    fn a_lock_of_an_earlier_boot_is_over() {
        let record = record(&moment("a", 50_000, WALL));
        // Acquired at WALL + 50 s, started again at WALL + 55 s.
        let rebooted = moment("b", 1_000, WALL + 55_000);
        assert!(!record.is_live(&rebooted) && record.is_clearable(&rebooted));
    }

    #[test]
    fn a_lock_of_another_id_of_the_same_boot_goes_by_the_wall_clock() {
        let record = record(&moment("container-1", 50_000, WALL));
        assert!(record.is_live(&moment("container-2", 60_999, WALL)));
        assert!(!record.is_live(&moment("container-2", 61_000, WALL)));
        // A machine without a clock of its own restarts at an old time; the lock then lives until its expiry.
        assert!(record.is_live(&moment("b", 1_000, WALL + 49_500)));
    }

    #[test]
    fn an_extend_keeps_the_time_of_acquisition() {
        let ttl = Ttl::from_millis(20_000).unwrap();
        let record = record(&moment("a", 50_000, WALL));
        for (now, expires) in [
            (moment("a", 52_000, WALL + 3_600_000), 1_800_000_072_000),
            (moment("b", 52_000, WALL + 7_000), 1_800_000_079_000),
        ] {
            let extended = record.extended(ttl, &now).unwrap();
            assert_eq!(extended.boot, now.boot);
            assert_eq!(extended.expires.as_millis(), 72_000);
            assert_eq!(extended.acquired_at().unwrap(), record.acquired_at().unwrap());
            assert_eq!(extended.expires_at().unwrap().as_millis(), expires);
        }
    }

    #[test]
    fn what_cannot_be_counted_is_refused_before_it_is_written() {
        let late = moment("a", (1 << 53) - 1, 0);
        let (key, lock_id) = (Key::new("key").unwrap(), LockId::generate().unwrap());
        assert!(Record::new(key, lock_id, Fence::new(1).unwrap(), Ttl::MIN, &late).is_err());
    }
}
