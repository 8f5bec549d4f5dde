//! The floor of each store: a lock that changes hands over raw connections, with nothing around it.

pub(crate) mod firestore;
pub(crate) mod postgres;
pub(crate) mod redis;

use std::time::Duration;

use crate::figures::Sorted;
use crate::row::Row;

/// The work of a holder before it hands the lock on: as in the contests, because a processor that has just slept is
/// slower.
const WORK: Duration = Duration::from_millis(1);

/// Times in ms from the beginning of a release to the grant that follows.
pub(crate) struct Floor {
    /// Release, acquire: the next holder is in the same process.
    pub(crate) inside: Sorted,
    /// Release, signal, acquire: the next holder is in another process.
    pub(crate) between: Sorted,
}

impl Floor {
    /// The median that a row is compared with, in ms.
    pub(crate) fn of(&self, row: &Row) -> f64 {
        let times = if row.ways.len() == 1 { &self.inside } else { &self.between };
        times.quantile(0.5)
    }
}
