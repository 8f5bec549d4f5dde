//! Rows of the lock table, and as the answers of statements show them.

use super::TOLERANCE;
use crate::postgres::session::Cell;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    pub(super) key: String,
    pub(super) id: String,
    pub(super) expires_at: i64,
    pub(super) acquired_at: i64,
    pub(super) fence: i64,
    pub(super) user_key: String,
    pub(super) holder: String,
}

/// The digits of a fence.
pub(super) fn digits(fence: i64) -> Cell {
    Cell::Text(format!("{fence:015}"))
}

pub(super) fn number(number: Option<i64>) -> Cell {
    number.map_or(Cell::Null, Cell::Number)
}

impl Row {
    pub(super) fn is_live(&self, now: i64) -> bool {
        self.expires_at > now - TOLERANCE
    }

    /// `{record}`, or `{no_record}`.
    pub(super) fn record(row: Option<&Self>) -> [Cell; 6] {
        let Some(row) = row else { return [const { Cell::Null }; 6] };
        [
            Cell::Text(row.key.clone()),
            Cell::Text(row.id.clone()),
            Cell::Number(row.expires_at),
            Cell::Number(row.acquired_at),
            digits(row.fence),
            Cell::Text(row.user_key.clone()),
        ]
    }

    pub(super) fn looked_up(&self, now: i64) -> Vec<Cell> {
        let end = [Cell::Number(now), Cell::Text(self.holder.clone())];
        Self::record(Some(self)).into_iter().chain(end).collect()
    }
}

/// A database that forgets nothing.
pub(super) fn durability() -> Vec<Cell> {
    let text = |text: &str| Cell::Text(text.to_owned());
    let (no, nothing) = (Cell::Bool(false), || Cell::Null);
    vec![
        no.clone(),
        text("on"),
        text("on"),
        text("p"),
        text("p"),
        nothing(),
        no,
        nothing(),
        nothing(),
        text("ready"),
        nothing(),
        nothing(),
        text("simulated"),
    ]
}
