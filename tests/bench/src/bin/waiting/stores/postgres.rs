//! A PostgreSQL server of its own, which does not wait for its disk.

use anyhow::Result;
use syncguard_postgres::PostgresBackend;
use syncguard_test_services::postgres::PostgresServer;

use super::{Measured, rows};
use crate::commands::Counter;
use crate::floor;
use crate::job::{Store, Way};
use crate::options::Options;
use crate::report::Report;
use crate::row::Row;
use crate::situations;
use crate::targets::{POSTGRES_16_IN_4, POSTGRES_64_IN_1};

const ROWS: [Row; 4] = [
    Row::new("64 in 1", &[Way::Ours], 64).with_target(POSTGRES_64_IN_1),
    Row::new("16 in 4", &[Way::Ours; 4], 16).with_target(POSTGRES_16_IN_4),
    Row::new("advisory locks, 64 in 1", &[Way::Advisory], 64),
    Row::new("advisory locks, 16 in 4", &[Way::Advisory; 4], 16),
];

pub(crate) async fn measure(report: &mut Report, options: &Options) -> Result<()> {
    let server = start()?;
    let port = server.port();
    let url = server.url();
    drop(PostgresBackend::connect(&format!("{url}?setup_schema=true")).await?);
    let counter = Counter::postgres(port).await?;
    let store = Store::Postgres { url, port };
    report.store("postgres");
    let floor = floor::postgres::measure(port, options.time / 2).await?;
    report.floor("floor, in a process", &floor.inside);
    report.floor("floor, between processes", &floor.between);
    let on = Measured { store: &store, counter: &counter };
    rows(report, options, on, &ROWS, |row| Some(floor.of(row))).await?;
    situations::all(report, options, on).await
}

/// Statements are counted by an extension where it is installed.
fn start() -> Result<PostgresServer> {
    let builder =
        || PostgresServer::builder().config("max_connections = 200").config("fsync = off");
    let counting = builder().config("shared_preload_libraries = 'pg_stat_statements'").start();
    counting.or_else(|_| builder().start())
}
