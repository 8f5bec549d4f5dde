//! Sessions that watch keys, and are notified of releases: signal.sql, watch.sql and listener.sql.

use std::collections::{BTreeMap, BTreeSet};

use crate::postgres::session::Cell;

/// The lock table's number.
const TABLE: i64 = 1;

#[derive(Default)]
pub(super) struct Signals {
    listening: BTreeSet<u64>,
    /// The sessions that hold a key's number shared.
    watched: BTreeMap<i64, BTreeSet<u64>>,
    /// The statements that hold a key's number for themselves, until they end.
    kept: BTreeMap<i64, usize>,
}

/// The number of a key: FNV-1a.
fn number_of(key: &str) -> i64 {
    let number = key.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    number.cast_signed()
}

impl Signals {
    pub(super) fn listens(&mut self, session: u64) {
        self.listening.insert(session);
    }

    pub(super) fn closes(&mut self, session: u64) {
        self.listening.remove(&session);
        for watchers in self.watched.values_mut() {
            watchers.remove(&session);
        }
        self.watched.retain(|_, watchers| !watchers.is_empty());
    }

    /// `{signal}` in a statement that frees a key: the number to notify of, if a session watches the key.
    pub(super) fn frees(&mut self, statement: usize, key: &str) -> Option<i64> {
        let number = number_of(key);
        if self.watched.contains_key(&number) {
            return Some(number);
        }
        self.kept.entry(number).or_insert(statement);
        None
    }

    pub(super) fn unlocks(&mut self, statement: usize) {
        self.kept.retain(|_, of| *of != statement);
    }

    /// The notifications of a statement that has committed.
    pub(super) fn told(&self, from: u64, number: i64) -> Vec<(u64, u64, String)> {
        let text = format!("{number:x}");
        self.listening.iter().map(|listener| (*listener, from, text.clone())).collect()
    }

    /// watch.sql.
    pub(super) fn watches(
        &mut self,
        session: u64,
        keys: &[String],
        unwatched: &[i64],
    ) -> Vec<Cell> {
        let numbers: Vec<i64> = keys.iter().map(|key| number_of(key)).collect();
        let watch = |number: &i64| {
            let is_free = !self.kept.contains_key(number);
            if is_free {
                self.watched.entry(*number).or_default().insert(session);
            }
            is_free
        };
        let are_watched: Vec<bool> = numbers.iter().map(watch).collect();
        for number in unwatched {
            if let Some(watchers) = self.watched.get_mut(number) {
                watchers.remove(&session);
            }
        }
        self.watched.retain(|_, watchers| !watchers.is_empty());
        let [numbers, are_watched] = if keys.is_empty() {
            [Cell::Null, Cell::Null]
        } else {
            [Cell::Numbers(numbers), Cell::Bools(are_watched)]
        };
        let forgotten = i64::try_from(unwatched.len()).expect("few");
        vec![Cell::Number(TABLE), Cell::Number(forgotten), numbers, are_watched]
    }

    /// listener.sql. The process id of a session is its number. Every other session watches two keys at most, and polls for the
    /// others.
    pub(super) fn listener(session: u64) -> Vec<Cell> {
        let process = i32::try_from(session).expect("few connections");
        let room = if process % 2 == 0 { 128 } else { 6400 };
        vec![Cell::Short(process), Cell::Number(TABLE), Cell::Bool(true), Cell::Number(room)]
    }
}
