//! extend.sql and release.sql.

use super::rows::number;
use super::{Next, Row, Running, Stage, Tables, Write};
use crate::flaw::Flaw;
use crate::postgres::session::Cell;
use crate::postgres::statements::{Asked, Raises};

impl Tables {
    pub(super) fn extend(
        &mut self,
        place: usize,
        running: &mut Running,
        now: i64,
        id: &str,
        (ttl, expected, deadline): (i64, Option<i64>, i64),
    ) -> Next {
        let key = running.saw.as_ref().map(|row| row.key.clone());
        let is_early = |row: &Row| row.expires_at >= deadline;
        let was_early = running.saw.as_ref().is_some_and(is_early);
        match (&running.stage, key) {
            (Stage::Sent, _) => {
                running.saw = self.row_of(id).cloned();
                match &running.saw {
                    None => Next::Ends(None),
                    // A lock that lives until the deadline needs no advisory lock.
                    Some(row) if row.is_live(now) && is_early(row) => Next::Stage(Stage::Row),
                    Some(row) if row.is_live(now) => Next::Stage(Stage::Turn),
                    Some(_) => Next::Ends(Some(not_extended(running, id, None))),
                }
            }
            (Stage::Turn, Some(key)) if !self.turns.take(&key, place) => Next::Waits,
            (Stage::Turn, _) => Next::Stage(Stage::Row),
            (Stage::Row, _) if self.has(Flaw::UpsertingExtend) => Next::Stage(Stage::Judges),
            (Stage::Row, Some(key)) if !self.row_locks.take(&key, place) => Next::Waits,
            (Stage::Row, _) => Next::Stage(Stage::Judges),
            (Stage::Judges, Some(key)) => {
                let now = self.time(running, now);
                let Some(row) = self.rows.get(&key).filter(|row| row.id == id) else {
                    return Next::Ends(Some(not_extended(running, id, None)));
                };
                running.judged_at = Some(now);
                let is_other = expected.is_some_and(|expected| expected != row.expires_at);
                // Another extend may have shortened the lock since the snapshot.
                let is_late = was_early && !is_early(row);
                if now > deadline || !row.is_live(now) || is_other || is_late {
                    return Next::Ends(Some(not_extended(running, id, Some(row))));
                }
                let expires_at = now + ttl + i64::from(now + ttl == row.expires_at);
                let write = if self.has(Flaw::UpsertingExtend) {
                    Write::Upsert(Row { expires_at, ..row.clone() })
                } else {
                    Write::Expiry(key, expires_at)
                };
                let mut answer = vec![Cell::Number(expires_at), Cell::Null];
                answer.extend(Row::record(None));
                answer.extend([Cell::Null, Cell::Number(now), Cell::Text(id.to_owned())]);
                Next::Stage(Stage::Writes(write, Some(answer)))
            }
            _ => Next::Ends(None),
        }
    }

    /// `extend_many.sql`: its answer has the cells of all rows.
    pub(super) fn extend_many(
        &mut self,
        place: usize,
        running: &mut Running,
        now: i64,
        asked: &[Asked],
        deadline: i64,
    ) -> Next {
        match running.stage {
            Stage::Sent => Next::Stage(Stage::Row),
            Stage::Row => {
                for (id, _, expected) in asked {
                    let is_it = |row: &&Row| row.expires_at == *expected && *expected >= deadline;
                    let Some(row) = self.row_of(id).filter(is_it) else { continue };
                    let key = row.key.clone();
                    if !self.row_locks.is_free(&key) {
                        continue;
                    }
                    self.row_locks.take(&key, place);
                    if self.turns.is_free(&key) {
                        self.turns.take(&key, place);
                    }
                    running.locked.push(key);
                }
                Next::Stage(Stage::Judges)
            }
            _ => {
                let now = self.time(running, now);
                let (mut writes, mut cells) = (Vec::new(), Vec::new());
                for (id, ttl, expected) in asked {
                    let row = self.row_of(id).filter(|row| running.locked.contains(&row.key));
                    let row = row.filter(|row| now <= deadline && row.expires_at == *expected);
                    let expires_at = now + ttl + i64::from(now + ttl == *expected);
                    writes.extend(row.map(|row| Write::Expiry(row.key.clone(), expires_at)));
                    cells.push(number(row.map(|_| expires_at)));
                    cells.extend([Cell::Number(now), Cell::Text(id.clone())]);
                }
                Next::Stage(Stage::Writes(Write::Several(writes), Some(cells)))
            }
        }
    }

    pub(super) fn release(
        &mut self,
        place: usize,
        running: &mut Running,
        now: i64,
        (id, raises, is_usual): (&str, Option<Raises>, bool),
        deadline: i64,
    ) -> Next {
        let is_to_go = |row: &Row| row.id == id && row.is_live(now) && now <= deadline;
        let key = running.saw.as_ref().map(|row| row.key.clone());
        match (&running.stage, key) {
            (Stage::Sent, _) => {
                running.saw = self.row_of(id).cloned();
                match &running.saw {
                    Some(row) if is_to_go(row) => Next::Stage(Stage::Row),
                    Some(row) if !is_usual => Next::Ends(Some(not_released(row, now, id))),
                    _ => Next::Ends(None),
                }
            }
            (Stage::Row, Some(key)) => {
                if !self.row_locks.take(&key, place) {
                    return Next::Waits;
                }
                let newest = self.rows.get(&key);
                // If the row was written meanwhile, its newest version counts; after a mere wait it is deleted.
                let is_same = newest == running.saw.as_ref();
                if !is_same && !newest.is_some_and(is_to_go) {
                    let saw = running.saw.as_ref().filter(|_| !is_usual);
                    return Next::Ends(saw.map(|row| not_released(row, now, id)));
                }
                // An acquire that has moved the counter commits first.
                let raises = raises.filter(|(of, ..)| *of == key);
                if let Some((_, counter, _)) = &raises
                    && !self.row_locks.take(counter, place)
                {
                    return Next::Waits;
                }
                // The time is read again: the lock may have expired.
                let is_live = newest.is_some_and(|row| row.is_live(now));
                running.tells = self.signals.frees(place, &key);
                if self.has(Flaw::ForgottenSending) {
                    self.forgotten.insert(id.to_owned());
                }
                let mut answer = vec![Cell::Bool(is_live)];
                if is_usual {
                    answer.push(Cell::Null);
                } else {
                    answer.extend(Row::record(None));
                    answer.push(Cell::Number(now));
                }
                answer.extend([Cell::Number(now), Cell::Text(id.to_owned())]);
                let raised = raises.filter(|_| is_live).map(|(_, counter, at_least)| {
                    let before = self.counters.get(&counter).copied().unwrap_or(0);
                    (counter, before.max(at_least))
                });
                Next::Stage(Stage::Writes(Write::Delete(key, raised), Some(answer)))
            }
            _ => Next::Ends(None),
        }
    }
}

/// The second row of extend.sql. `held` is the newest version of the row, if it is still there.
fn not_extended(running: &Running, id: &str, held: Option<&Row>) -> Vec<Cell> {
    let judged_at = held.and(running.judged_at);
    let held = held.filter(|row| judged_at.is_some_and(|now| row.is_live(now)));
    let mut answer = vec![Cell::Null, number(held.map(|row| row.expires_at))];
    answer.extend(Row::record(running.saw.as_ref()));
    answer.push(number(judged_at.or(running.started)));
    answer.push(number(judged_at));
    answer.push(Cell::Text(id.to_owned()));
    answer
}

/// The second row of release.sql, which shows the snapshot.
fn not_released(saw: &Row, now: i64, id: &str) -> Vec<Cell> {
    let mut answer = vec![Cell::Null];
    answer.extend(Row::record(Some(saw)));
    answer.extend([Cell::Number(now), Cell::Number(now), Cell::Text(id.to_owned())]);
    answer
}
