//! The Firestore emulator.

use anyhow::Result;

use super::{Measured, rows};
use crate::commands::Counter;
use crate::floor;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;
use crate::situations;
use crate::support;
use crate::targets::FIRESTORE_16_IN_1;

const ROWS: [Row; 2] = [
    Row::new("16 in 1", &[Way::Ours], 16).with_target(FIRESTORE_16_IN_1),
    Row::new("16 in 4", &[Way::Ours; 4], 16),
];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let (url, port) = (support::fresh(), support::shared().port());
    report.store("firestore");
    let store = Store::Firestore { url: url.clone(), port };
    // Java takes its time until it is as fast as it gets.
    ROWS[0].measure(Measured { store: &store, counter: &Counter::None }, options.time).await?;
    floor::firestore::measure(&url, port, options.time).await?;
    let floor = floor::firestore::measure(&url, port, options.time / 2).await?;
    report.floor("floor, in a process", &floor);
    let on = Measured { store: &store, counter: &Counter::None };
    rows(report, options, on, &ROWS, |_| Some(floor.quantile(0.5))).await?;
    situations::all(report, options, on).await
}
