//! acquire.sql and settle.sql.

use super::rows::{digits, number};
use super::{Next, Row, Running, Stage, Tables, Write};
use crate::flaw::Flaw;
use crate::postgres::session::Cell;
use crate::postgres::statements::Acquire;

impl Tables {
    pub(super) fn acquire(
        &mut self,
        number: usize,
        running: &mut Running,
        now: i64,
        asked: &Acquire,
    ) -> Next {
        let none = |running: &Running| (!asked.is_usual).then(|| answer(running, asked, None));
        let ends = |running: &Running| Next::Ends(none(running));
        match running.stage {
            // `stored` and `counter`. A contended acquire ends here.
            Stage::Sent => {
                running.saw = self.rows.get(&asked.key).cloned();
                running.counter = self.counters.get(&asked.counter).copied();
                let is_held = running.saw.as_ref().is_some_and(|row| row.is_live(now));
                let is_used_up = running.counter.is_some_and(|counter| counter >= asked.below);
                let is_unusual = running.saw.is_some() || running.counter.is_none();
                if is_held || is_used_up || asked.is_usual && is_unusual {
                    ends(running)
                } else {
                    Next::Stage(Stage::Turn)
                }
            }
            Stage::Turn if !self.turns.take(&asked.key, number) => Next::Waits,
            Stage::Turn => Next::Stage(Stage::Row),
            Stage::Row if self.has(Flaw::MissingRowLock) => Next::Stage(Stage::Judges),
            // `expired` and `vacant`: the current row, after its writer has finished.
            Stage::Row if running.saw.is_some() && !self.row_locks.take(&asked.key, number) => {
                Next::Waits
            }
            Stage::Row => {
                let is_expired = self.rows.get(&asked.key).is_some_and(|row| !row.is_live(now));
                if running.saw.is_some() && !is_expired {
                    return ends(running);
                }
                Next::Stage(Stage::Judges)
            }
            // `time`.
            Stage::Judges => {
                let now = self.time(running, now);
                running.judged_at = Some(now);
                if now > asked.deadline || now < asked.not_before {
                    return ends(running);
                }
                Next::Stage(Stage::Counts)
            }
            // `numbered`, which waits for the row of the counter, and `taken`, which waits for the row of the lock.
            Stage::Counts if !self.row_locks.take(&asked.counter, number) => Next::Waits,
            Stage::Counts => {
                let is_blind = self.has(Flaw::MissingRowLock);
                if !is_blind && !self.row_locks.take(&asked.key, number) {
                    return Next::Waits;
                }
                let counter = self.counters.get(&asked.counter).copied();
                let is_stale = self.has(Flaw::StaleWindow) && asked.not_before > 0;
                if counter != running.counter && !is_stale {
                    return ends(running);
                }
                let fence = counter.map_or(asked.at_least, |last| asked.at_least.max(last + 1));
                if !is_blind && self.rows.get(&asked.key).is_some_and(|row| row.is_live(now)) {
                    let write = Write::Counter(asked.counter.clone(), fence);
                    return Next::Stage(Stage::Writes(write, none(running)));
                }
                let acquired_at = running.judged_at.unwrap_or(now);
                let expires_at = acquired_at + asked.ttl;
                let row = Row {
                    key: asked.key.clone(),
                    id: asked.id.clone(),
                    expires_at,
                    acquired_at,
                    fence,
                    user_key: asked.user_key.clone(),
                    holder: format!("{fence:015} {}", asked.holder),
                };
                let answer = answer(running, asked, Some((expires_at, fence)));
                Next::Stage(Stage::Writes(Write::Take(row, asked.counter.clone()), Some(answer)))
            }
            Stage::Writes(..) => Next::Ends(None),
        }
    }

    pub(super) fn settle(
        &mut self,
        number: usize,
        running: &mut Running,
        now: i64,
        id: &str,
        key: &str,
    ) -> Next {
        let answer = |is_alone, released| {
            let asked = Cell::Text(id.to_owned());
            Some(vec![Cell::Bool(is_alone), Cell::Bool(released), Cell::Number(now), asked])
        };
        match running.stage {
            Stage::Sent => {
                let saw = self.row_of(id).filter(|row| row.is_live(now)).cloned();
                running.saw = saw.filter(|row| !self.forgotten.contains(&row.id));
                Next::Stage(Stage::Turn)
            }
            // An acquire may have been committed since the snapshot.
            Stage::Turn => {
                running.is_alone = self.has(Flaw::NotAlone)
                    || self.turns.is_free(key) && self.turns.take(key, number);
                Next::Stage(Stage::Row)
            }
            Stage::Row => {
                let is_alone = running.is_alone;
                let Some(row) = &running.saw else { return Next::Ends(answer(is_alone, false)) };
                let key = row.key.clone();
                if !self.row_locks.take(&key, number) {
                    return Next::Waits;
                }
                let newest = self.rows.get(&key);
                if !newest.is_some_and(|row| row.id == id && row.is_live(now)) {
                    return Next::Stage(Stage::Writes(Write::Nothing, answer(is_alone, false)));
                }
                running.tells = self.signals.frees(number, &key);
                Next::Stage(Stage::Writes(Write::Delete(key, None), answer(is_alone, true)))
            }
            _ => Next::Ends(None),
        }
    }
}

/// The row of acquire.sql, with the expiry and the fence if the lock was taken.
fn answer(running: &Running, asked: &Acquire, taken: Option<(i64, i64)>) -> Vec<Cell> {
    let (expires_at, fence) = taken.unzip();
    let (expires, digits) = (number(expires_at), fence.map_or(Cell::Null, digits));
    let (judged_at, id) = (number(running.judged_at), Cell::Text(asked.id.clone()));
    if asked.is_usual {
        return vec![expires, digits, judged_at, id];
    }
    let saw = running.saw.as_ref();
    let mut row = vec![
        expires,
        digits,
        number(running.counter),
        // Nothing was in the way but another value of the counter.
        Cell::Null,
    ];
    row.extend(Row::record(saw));
    row.push(number(saw.and(running.started)));
    row.push(saw.map_or(Cell::Null, |row| Cell::Text(row.holder.clone())));
    row.extend([judged_at, id]);
    row
}
