//! acquire.sql and settle.sql, without the holder column, which decides nothing.

use syncguard_core::{Key, LockId};

use super::{Next, Postgres, Stage, Statement, Write};
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply};

impl Postgres {
    /// acquire.sql, and `decide` in acquire.rs.
    pub(super) fn acquire(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        (key, id, ttl, deadline): (&Key, LockId, u64, u64),
    ) -> Next {
        match statement.stage {
            // `stored` and `counter`. A contended acquire ends here.
            Stage::Sent => {
                statement.saw = self.rows.get(key).cloned();
                statement.counter = self.counters.get(key).copied().unwrap_or(0);
                match statement.saw.as_ref().filter(|row| row.is_live(now)) {
                    Some(row) if row.id == id => Next::Ends(Reply::Granted {
                        fence: row.fence,
                        expires_at: row.expires_at,
                        is_fresh: false,
                    }),
                    Some(row) => Next::Ends(Reply::Held { expires_at: row.expires_at, now }),
                    None => Next::Stage(Stage::Turn),
                }
            }
            Stage::Turn if !self.turns.take(key, number) => Next::Waits,
            Stage::Turn => Next::Stage(Stage::Row),
            Stage::Row if self.has(Flaw::MissingRowLock) => Next::Stage(Stage::Judges),
            // `expired`: the current row, after its writer has finished.
            Stage::Row if statement.saw.is_some() && !self.row_locks.take(key, number) => {
                Next::Waits
            }
            Stage::Row => {
                let is_expired = self.rows.get(key).is_some_and(|row| !row.is_live(now));
                if statement.saw.is_some() && !is_expired {
                    return Next::Ends(Reply::Overtaken);
                }
                Next::Stage(Stage::Judges)
            }
            // `time`, `numbered` and `taken`.
            Stage::Judges => {
                let now = self.time(statement, now);
                if now > deadline {
                    return Next::Ends(Reply::Late { now });
                }
                let counter = self.counters.get(key).copied().unwrap_or(0);
                if counter != statement.counter {
                    return Next::Ends(Reply::Overtaken);
                }
                let is_blind = self.has(Flaw::MissingRowLock);
                if !is_blind && !self.row_locks.take(key, number) {
                    return Next::Waits;
                }
                if !is_blind && self.rows.get(key).is_some_and(|row| row.is_live(now)) {
                    let write = Write::OnlyCounter(key.clone());
                    return Next::Stage(Stage::Writes(write, Some(Reply::Overtaken)));
                }
                let (fence, expires_at) = (counter + 1, now + ttl);
                let row = Record { key: key.clone(), id, fence, acquired_at: now, expires_at };
                let reply = Reply::Granted { fence, expires_at, is_fresh: true };
                Next::Stage(Stage::Writes(Write::Take(row), Some(reply)))
            }
            Stage::Writes(..) => Next::Ends(Reply::Cancelled),
        }
    }

    /// settle.sql.
    pub(super) fn settle(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        key: &Key,
        id: LockId,
    ) -> Next {
        match statement.stage {
            Stage::Sent => {
                statement.saw = self.row_of(id).filter(|row| row.is_live(now)).cloned();
                statement.is_alone = self.has(Flaw::NotAlone)
                    || self.turns.is_free(key) && self.turns.take(key, number);
                Next::Stage(Stage::Row)
            }
            Stage::Row => {
                let is_alone = statement.is_alone;
                let look = Reply::Look { is_alone, now };
                let Some(row) = &statement.saw else { return Next::Ends(look) };
                if !self.row_locks.take(&row.key, number) {
                    return Next::Waits;
                }
                let is_ours =
                    self.rows.get(&row.key).is_some_and(|row| row.id == id && row.is_live(now));
                let write = if is_ours { Write::Delete(row.key.clone()) } else { Write::Nothing };
                Next::Stage(Stage::Writes(write, Some(look)))
            }
            _ => Next::Ends(Reply::Cancelled),
        }
    }
}
