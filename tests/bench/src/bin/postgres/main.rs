//! `cargo xtask bench postgres`: cycles of acquire and release, each task on a key of its own.
//!
//! Everything runs against one server with the settings it comes with, `fsync` included. A table goes to the terminal,
//! the ratios to `target/bench/postgres.json`.

mod naive;
mod pgbench;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
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
    let (time, mut report) = (options.time(600, 1500)?, Report::default());
    let server = PostgresServer::builder().config("max_connections = 200").start()?;
    let proxy = FaultProxy::start(server.port())?;
    // There and back: one millisecond more.
    let half = Duration::from_micros(500);
    proxy.set_latency(half, half);
    for (latency, port) in [(0, server.port()), (1, proxy.port())] {
        for callers in CALLERS {
            let table = Table::measure(ways(port).await?, callers, time).await?;
            table.print(&format!(", {latency} ms added"));
            let (of_pgbench, of_naive) = (table.ratio(0, 1), table.ratio(0, 2));
            let row = format!("{callers} at once, {latency} ms added, cycles of");
            if callers > 1 {
                report.at_least(&format!("{row} (b)"), of_pgbench, 0.9);
            }
            // The naive transaction awaits more statements; with many at once, both use up the processors.
            let least = match (latency, callers) {
                (0, _) => 1.4,
                (_, 1) => 4.0,
                _ => 2.5,
            };
            report.at_least(&format!("{row} (c)"), of_naive, least);
            println!("    cycles of (b) {of_pgbench:.2}, of (c) {of_naive:.2}");
            if latency == 0 {
                report.ratio(callers, "the same SQL by pgbench", of_pgbench);
                report.ratio(callers, "a transaction that awaits each statement", of_naive);
            }
        }
    }
    report.end("postgres", options.check)
}

async fn ways(port: u16) -> Result<Vec<Locks>> {
    let (pool, options) = (pool(port)?, PostgresOptions::new());
    setup_schema(&pool, &options).await?;
    let backend = PostgresBackend::from_pool(pool, options)?;
    // Prepares the statements, in the only session.
    cycle(&backend, "first").await?;
    let session = backend.pool().get().await?;
    let script = Script::new(port, &session).await?;
    drop(session);
    Ok(vec![
        Locks::Backend(backend),
        Locks::Pgbench(Arc::new(script)),
        Locks::Naive(self::pool(port)?),
    ])
}

fn pool(port: u16) -> Result<Pool> {
    let settings = ManagerConfig { recycling_method: RecyclingMethod::Fast };
    let manager = Manager::from_config(postgres_config(port), NoTls, settings);
    Ok(Pool::builder(manager).max_size(POOL).runtime(Runtime::Tokio1).build()?)
}

#[derive(Clone)]
enum Locks {
    Backend(PostgresBackend),
    Pgbench(Arc<Script>),
    Naive(Pool),
}

impl Way for Locks {
    fn name(&self) -> &'static str {
        match self {
            Self::Backend(_) => "(a) syncguard-postgres",
            Self::Pgbench(_) => "(b) the same SQL by pgbench",
            Self::Naive(_) => "(c) the naive transaction",
        }
    }

    async fn cycle(&self, task: usize) -> Result<()> {
        let key = format!("task {task}");
        match self {
            Self::Backend(backend) => cycle(backend, &key).await,
            Self::Pgbench(_) => bail!("it runs by itself"),
            Self::Naive(pool) => {
                let lock_id = naive::acquire(pool, &key, TTL).await?.context("a free key")?;
                naive::release(pool, lock_id).await
            }
        }
    }

    fn run_by_itself(&self, tasks: usize, time: Duration) -> Option<Result<f64>> {
        let Self::Pgbench(script) = self else { return None };
        Some(script.run(tasks.min(POOL), time))
    }
}
