//! The measurements on each store.

pub(crate) mod etcd;
pub(crate) mod firestore;
pub(crate) mod memory;
pub(crate) mod postgres;
pub(crate) mod redis;
pub(crate) mod sqlite;

use anyhow::Result;

use crate::commands::Counter;
use crate::job::Store;
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;

/// A store, and the counter of its commands.
#[derive(Clone, Copy)]
pub(crate) struct Measured<'a> {
    pub(crate) store: &'a Store,
    pub(crate) counter: &'a Counter,
}

/// Measures rows and prints them. `floor` is the median, in ms, that a row is compared with.
async fn rows(
    report: &mut Report,
    options: &Options,
    on: Measured<'_>,
    rows: &[Row],
    floor: impl Fn(&Row) -> Option<f64>,
) -> Result<()> {
    for row in rows.iter().filter(|row| options.wants_row(row.name)) {
        let has_longest_wait = row.target.is_some_and(|target| target.over_ideal.is_some());
        let (figures, commands) = if has_longest_wait {
            row.median(on, options.time).await?
        } else {
            row.measure(on, options.time).await?
        };
        report.row(row, &figures, commands, floor(row));
    }
    Ok(())
}
