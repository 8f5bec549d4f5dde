//! In one process.

use anyhow::Result;

use super::Measured;
use crate::commands::Counter;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;
use crate::situations;
use crate::targets::{MEMORY_64_IN_1, MEMORY_HAND_OVER, MEMORY_OVER_MUTEX};

const MUTEX: Row = Row::new("tokio's mutex, 64 in 1", &[Way::Tokio], 64);
const OURS: Row = Row::new("64 in 1", &[Way::Ours], 64).with_target(MEMORY_64_IN_1);

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    report.store("memory");
    let on = Measured { store: &Store::Memory, counter: &Counter::None };
    let (mutex, _) = MUTEX.measure(on, options.time).await?;
    report.row(&MUTEX, &mutex, 0.0, None);
    let (ours, _) = OURS.measure(on, options.time).await?;
    report.row(&OURS, &ours, 0.0, Some(mutex.p50));
    let bound = MEMORY_HAND_OVER.max(mutex.p50 * MEMORY_OVER_MUTEX);
    report.at_most(OURS.name, "hand-over p50 in ms", ours.p50, Some(bound));
    situations::one_process(report, options, on.store)
}
