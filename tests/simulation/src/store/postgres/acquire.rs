//! acquire.sql and settle.sql, without the holder column, which decides nothing.

use syncguard_core::{Key, LockId};

use super::{Next, Postgres, Stage, Statement, Write};
use crate::flaw::Flaw;
use crate::protocol::{Record, Reply, Window};

impl Postgres {
    /// acquire.sql, and `decide` in acquire.rs.
    pub(super) fn acquire(
        &mut self,
        number: usize,
        statement: &mut Statement,
        now: u64,
        (key, id, ttl, deadline): (&Key, LockId, u64, u64),
        window: Option<&Window>,
    ) -> Next {
        match statement.stage {
            // `stored` and `counter`. A contended acquire ends here.
            Stage::Sent => {
                statement.saw = self.rows.get(key).cloned();
                statement.counter = self.counters.get(key).copied().unwrap_or(0);
                let held = statement.saw.as_ref().filter(|row| row.is_live(now));
                if let Some(own) = held.filter(|row| row.id == id) {
                    let (fence, expires_at) = (own.fence, own.expires_at);
                    return Next::Ends(Reply::Granted { fence, expires_at, is_fresh: false });
                }
                let taken = window.and_then(|window| window.is_taken(statement.counter));
                if let Some(why) = taken {
                    return Next::Ends(Reply::Refused { why, now });
                }
                if let Some(row) = held {
                    let early = window.and_then(|window| window.is_early(now));
                    return Next::Ends(match early {
                        Some(why) => Reply::Refused { why, now },
                        None => Reply::Held { expires_at: row.expires_at, now },
                    });
                }
                Next::Stage(Stage::Turn)
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
                if let Some(why) = window.and_then(|window| window.is_early(now)) {
                    return Next::Ends(Reply::Refused { why, now });
                }
                let counter = self.counters.get(key).copied().unwrap_or(0);
                // So the window still has a fence.
                let is_stale = self.has(Flaw::StaleWindow) && window.is_some();
                if counter != statement.counter && !is_stale {
                    return Next::Ends(Reply::Overtaken);
                }
                let is_blind = self.has(Flaw::MissingRowLock);
                if !is_blind && !self.row_locks.take(key, number) {
                    return Next::Waits;
                }
                let (fence, expires_at) = (Window::fence(window, counter), now + ttl);
                if !is_blind && self.rows.get(key).is_some_and(|row| row.is_live(now)) {
                    let write = Write::OnlyCounter(key.clone(), fence);
                    return Next::Stage(Stage::Writes(write, Some(Reply::Overtaken)));
                }
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
