//! `cargo xtask bench postgres`: cycles of acquire and release, each task on a key of its own.
//!
//! Everything runs against one server with the settings it comes with, `fsync` included.

mod naive;
mod pgbench;

use std::time::Duration;

use anyhow::{Context as _, Result};
use syncguard_bench::clients::postgres_config;
use syncguard_bench::{Options, Report, Table, Way, cycle};
use syncguard_postgres::deadpool_postgres::{
    Manager, ManagerConfig, Pool, RecyclingMethod, Runtime,
};
use syncguard_postgres::tokio_postgres::NoTls;
use syncguard_postgres::{PostgresBackend, PostgresOptions, setup_schema};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;

use crate::pgbench::Script;

const CALLERS: [usize; 3] = [1, 16, 64];
/// Connections of each pool.
const POOL: usize = 16;
const TTL: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(1500)?, Report::default());
    let server = PostgresServer::builder().config("max_connections = 200").start()?;
    let proxy = FaultProxy::start(server.port())?;
    // There and back: one millisecond more.
    let half = Duration::from_micros(500);
    proxy.set_latency(half, half);
    for (latency, port) in [(0, server.port()), (1, proxy.port())] {
        for callers in CALLERS {
            let title = format!(", {latency} ms added");
            let table = Table::measure(ways(port).await?, callers, &title, time).await?;
            let of_pgbench = (callers > 1).then_some(0.9);
            // The naive transaction awaits more statements; with many at once, both use up the processors.
            let of_naive = match (latency, callers) {
                (0, _) => 1.4,
                (_, 1) => 4.0,
                _ => 2.5,
            };
            table.compare([0, 1], of_pgbench, &mut report);
            table.compare([0, 2], Some(of_naive), &mut report);
        }
    }
    report.end(options.check)
}

async fn ways(port: u16) -> Result<Vec<Way>> {
    let (pool, options) = (pool(port)?, PostgresOptions::new());
    setup_schema(&pool, &options).await?;
    let backend = PostgresBackend::from_pool(pool, options)?;
    // Prepares the statements, in the only session, and makes the counters: the usual acquire is of a key that has one.
    for client in 0..POOL {
        cycle(&backend, &format!("bench {client}")).await?;
        cycle(&backend, &format!("bench {client}")).await?;
    }
    let session = backend.pool().get().await?;
    let script = Script::new(port, &session).await?;
    drop(session);
    Ok(vec![
        Way::backend("(a) syncguard-postgres", backend),
        Way::by_itself("(b) the same SQL by pgbench", move |callers, time| {
            script.run(callers.min(POOL), time)
        }),
        Way::new("(c) the naive transaction", self::pool(port)?, |pool, key| async move {
            let lock_id = naive::acquire(&pool, &key, TTL).await?.context("a free key")?;
            naive::release(&pool, lock_id).await
        }),
    ])
}

fn pool(port: u16) -> Result<Pool> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(postgres_config(port), NoTls, settings);
    Ok(Pool::builder(manager).max_size(POOL).runtime(Runtime::Tokio1).build()?)
}
