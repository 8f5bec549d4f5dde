//! The measurements on each store.

use anyhow::Result;
use syncguard_bench::Counter;
use syncguard_bench::firestore::Raw;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

use crate::floor::{self, Floor};
use crate::row::{Measured, Row};
use crate::tables::{Asked, Tables};
use crate::{beside, crash};

const IN_1: Row = Row { name: "64 in 1", processes: 1, waiters: 64, work: 1 };
const IN_4: Row = Row { name: "16 in 4", processes: 4, waiters: 16, work: 1 };
const LONG_WORK: Row = Row { name: "64 in 4, 50 ms", processes: 4, waiters: 64, work: 50 };

pub(crate) async fn memory(tables: &mut Tables) -> Result<()> {
    tables.store("memory");
    let on = Measured { store: "memory:", counter: &Counter::None };
    tables.contest(&IN_1, on, None, Asked::Nothing).await
}

pub(crate) async fn redis(tables: &mut Tables) -> Result<()> {
    let server = RedisServer::start()?;
    let url = &server.url();
    let counter = &Counter::redis(url).await?;
    let floor = floor::redis(url, tables.time(5_000)?).await?;
    tables.store("redis");
    all(tables, Measured { store: url, counter }, &floor).await
}

/// A server that does not wait for its disk.
pub(crate) async fn postgres(tables: &mut Tables) -> Result<()> {
    let server = PostgresServer::builder()
        .config("max_connections = 200")
        .config("fsync = off")
        .config("shared_preload_libraries = 'pg_stat_statements'")
        .start()?;
    let (url, port) = (&server.url(), server.port());
    drop(syncguard::connect(&format!("{url}?setup_schema=true")).await?);
    let counter = &Counter::postgres(port).await?;
    let floor = floor::postgres(port, tables.time(5_000)?).await?;
    tables.store("postgres");
    all(tables, Measured { store: url, counter }, &floor).await
}

/// Measures every row of a store with signals.
async fn all(tables: &mut Tables, on: Measured<'_>, floor: &Floor) -> Result<()> {
    tables.floor("floor, in a process", &floor.inside);
    tables.floor("floor, between processes", &floor.between);
    for row in [&IN_1, &IN_4] {
        tables.contest(row, on, Some(floor), Asked::Speed).await?;
    }
    tables.contest(&LONG_WORK, on, Some(floor), Asked::Success).await?;
    beside::all(tables, on).await?;
    crash::holder(tables, on.store, floor.between.quantile(0.5)).await
}

pub(crate) async fn firestore(tables: &mut Tables) -> Result<()> {
    let emulator = FirestoreEmulator::start()?;
    let raw = Raw::new(emulator.port())?;
    raw.warm_up().await?;
    let floor = floor::firestore(&raw, tables.time(5_000)?).await?;
    tables.store("firestore");
    tables.floor("floor, in a process", &floor.inside);
    let on = Measured { store: &raw.url(), counter: &Counter::None };
    for row in [Row { name: "16 in 1", waiters: 16, ..IN_1 }, IN_4] {
        tables.contest(&row, on, Some(&floor), Asked::Nothing).await?;
    }
    Ok(())
}
