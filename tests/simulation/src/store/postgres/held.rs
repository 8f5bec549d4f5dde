//! extend.sql and release.sql.

use syncguard_core::LockId;

use super::{Next, Postgres, Stage, Statement, Write};
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply};

impl Postgres {
    /// extend.sql, and `decide` in extend.rs.
    pub(super) fn extend(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        (id, ttl, expected, deadline): (LockId, u64, Option<u64>, u64),
    ) -> Next {
        let not_held = |is_expired| Next::Ends(Reply::NotHeld { is_expired, now });
        let is_early = |row: Option<&Record>| row.is_some_and(|row| row.expires_at >= deadline);
        let key = statement.saw.as_ref().map(|row| row.key.clone());
        match (&statement.stage, key) {
            (Stage::Sent, _) => {
                statement.saw = self.row_of(id).cloned();
                match &statement.saw {
                    None => not_held(false),
                    Some(row) if !row.is_live(now) => not_held(true),
                    Some(_) => Next::Stage(Stage::Turn),
                }
            }
            // A lock that lives until the deadline needs no advisory lock.
            (Stage::Turn, _) if is_early(statement.saw.as_ref()) => Next::Stage(Stage::Row),
            (Stage::Turn, Some(key)) if !self.turns.take(&key, number) => Next::Waits,
            (Stage::Turn, _) => Next::Stage(Stage::Row),
            (Stage::Row, _) if self.has(Flaw::UpsertingExtend) => Next::Stage(Stage::Judges),
            (Stage::Row, Some(key)) if !self.row_locks.take(&key, number) => Next::Waits,
            (Stage::Row, _) => Next::Stage(Stage::Judges),
            (Stage::Judges, Some(key)) => {
                let now = self.time(statement, now);
                let Some(row) = self.rows.get(&key).filter(|row| row.id == id) else {
                    return not_held(true);
                };
                if now > deadline {
                    return Next::Ends(Reply::Late { now });
                }
                if !row.is_live(now) {
                    return not_held(true);
                }
                if expected.is_some_and(|expected| expected != row.expires_at) {
                    return Next::Ends(Reply::Mismatch { expires_at: row.expires_at });
                }
                if is_early(statement.saw.as_ref()) && !is_early(Some(row)) {
                    return Next::Ends(Reply::Cancelled);
                }
                let expires_at = now + ttl + u64::from(now + ttl == row.expires_at);
                let write = if self.has(Flaw::UpsertingExtend) {
                    Write::Upsert(Record { expires_at, ..row.clone() })
                } else {
                    Write::Expiry(key, expires_at)
                };
                Next::Stage(Stage::Writes(write, Some(Reply::Extended { expires_at })))
            }
            _ => Next::Ends(Reply::Cancelled),
        }
    }

    /// release.sql.
    pub(super) fn release(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        id: LockId,
        deadline: u64,
    ) -> Next {
        let is_late = now > deadline;
        let key = statement.saw.as_ref().map(|row| row.key.clone());
        match (&statement.stage, key) {
            (Stage::Sent, _) => {
                statement.saw = self.row_of(id).cloned();
                match &statement.saw {
                    None => Next::Ends(Reply::NotHeld { is_expired: false, now }),
                    Some(_) if is_late => Next::Ends(Reply::Late { now }),
                    Some(row) if !row.is_live(now) => {
                        Next::Ends(Reply::NotHeld { is_expired: true, now })
                    }
                    Some(_) => Next::Stage(Stage::Row),
                }
            }
            (Stage::Row, Some(key)) => {
                if !self.row_locks.take(&key, number) {
                    return Next::Waits;
                }
                let newest = self.rows.get(&key);
                // If the row was written meanwhile, its newest version counts.
                let is_same = newest == statement.saw.as_ref();
                let is_ours = newest.is_some_and(|row| row.id == id && row.is_live(now));
                if !is_same && (!is_ours || is_late) {
                    // Only the snapshot counts.
                    let is_expired = statement.saw.as_ref().is_some_and(|row| !row.is_live(now));
                    let reply = Reply::NotHeld { is_expired, now };
                    return Next::Ends(if is_late { Reply::Late { now } } else { reply });
                }
                // After a mere wait, the time is read again: the lock may have expired.
                let reply = if is_ours {
                    Reply::Released
                } else {
                    Reply::NotHeld { is_expired: true, now }
                };
                Next::Stage(Stage::Writes(Write::Delete(key), Some(reply)))
            }
            _ => Next::Ends(Reply::Cancelled),
        }
    }
}
