//! In one process.

use anyhow::Result;

use super::{Measured, rows};
use crate::commands::Counter;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;
use crate::situations;
use crate::targets::MEMORY_64_IN_1;

const MUTEX: Row = Row::new("tokio's mutex, 64 in 1", &[Way::Tokio], 64);
const ROWS: [Row; 1] = [Row::new("64 in 1", &[Way::Ours], 64).to_reach(MEMORY_64_IN_1)];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    report.store("memory");
    let on = Measured { store: &Store::Memory, counter: &Counter::None };
    let (mutex, _) = MUTEX.measure(on, options.time).await?;
    report.row(&MUTEX, &mutex, 0.0, None);
    rows(report, options, on, &ROWS, |_| Some(mutex.p50)).await?;
    situations::one_process(report, options, on.store)
}
