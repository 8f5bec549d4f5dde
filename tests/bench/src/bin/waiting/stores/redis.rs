//! A Redis server of its own.

use std::time::Duration;

use anyhow::Result;
use syncguard_test_services::redis::RedisServer;

use super::{Measured, rows};
use crate::commands::Counter;
use crate::floor;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;
use crate::situations;
use crate::targets::{
    REDIS_16_IN_4, REDIS_64_IN_1, REDIS_64_IN_4, REDIS_64_IN_4_50_MS, REDIS_1000_IN_1,
};

const FOUR: &[Way] = &[Way::Ours; 4];

const ROWS: [Row; 7] = [
    Row::new("64 in 1", &[Way::Ours], 64).with_target(REDIS_64_IN_1),
    Row::new("16 in 4", FOUR, 16).with_target(REDIS_16_IN_4),
    Row::new("64 in 4", FOUR, 64).with_target(REDIS_64_IN_4),
    Row::new("64 in 4, 50 ms", FOUR, 64)
        .working(Duration::from_millis(50))
        .with_target(REDIS_64_IN_4_50_MS),
    Row::new("1000 in 1", &[Way::Ours], 1000).with_target(REDIS_1000_IN_1),
    Row::new("rslock, 64 in 1", &[Way::Rslock], 64),
    Row::new("rslock, 16 in 4", &[Way::Rslock; 4], 16),
];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let server = RedisServer::start()?;
    let url = server.url();
    let counter = Counter::redis(&url).await?;
    report.store("redis");
    let floor = floor::redis::measure(&url, options.time / 2).await?;
    report.floor("floor, in a process", &floor.inside);
    report.floor("floor, between processes", &floor.between);
    let store = Store::Redis { url };
    let on = Measured { store: &store, counter: &counter };
    rows(report, options, on, &ROWS, |row| Some(floor.of(row))).await?;
    situations::all(report, options, on).await
}
