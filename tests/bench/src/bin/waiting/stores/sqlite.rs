//! A file on the disk.

use anyhow::Result;

use super::Measured;
use crate::commands::Counter;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;
use crate::situations;

/// In ms, also between processes.
const HAND_OVER: f64 = 5.0;

const ROWS: [Row; 3] = [
    Row::new("64 in 1", &[Way::Ours], 64),
    Row::new("16 in 4", &[Way::Ours; 4], 16),
    // One of each process: each hand-over is one between two of them.
    Row::new("4 in 4", &[Way::Ours; 4], 4),
];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    // On the disk: a folder for temporary files may be in memory.
    let folder = tempfile::tempdir_in(syncguard_bench::folder()?)?;
    let store = Store::Sqlite { path: folder.path().join("locks.db") };
    let on = Measured { store: &store, counter: &Counter::None };
    report.store("sqlite");
    for row in ROWS.iter().filter(|row| options.wants_row(row.name)) {
        let (figures, commands) = row.measure(on, options.time).await?;
        report.row(row, &figures, commands, None);
        report.at_most(row.name, "hand-over p50 in ms", figures.p50, Some(HAND_OVER));
        let failed = figures.failures.values().sum::<u64>();
        report.at_most(row.name, "failures", failed as f64, Some(0.0));
    }
    if options.wants_row("crashed holder") {
        situations::crashed_holder(report, &store)?;
    }
    situations::one_process(report, options, &store)
}
