//! `cargo xtask bench redis`: cycles of acquire and release, each on an uncontended key.
//!
//! Everything runs against one server, one after the other, in several rounds; the median round
//! counts. A table goes to the terminal, everything to `target/bench/redis.json`. With `--cluster` it
//! is a cluster of three masters beside one server, and nothing else.
//!
//! The targets are against (b), the same scripts sent by the same driver. Printed without a target: (c), which has
//! no runtime; (d), which keeps one key a lock and no fence; (e), which keeps no fence and no lock id; and (f),
//! since the drivers differ by more than the library costs.

mod cluster;
mod cost;
mod cycles;
mod floor;

use std::alloc::System;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value as Json, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use syncguard_bench::{Options, Targets};
use syncguard_redis::RedisBackend;
use syncguard_test_services::redis::RedisServer;

use crate::cycles::{Figures, Way};

#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONCURRENCY: [usize; 4] = [1, 16, 64, 256];
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let options = Options::parse(&["--cluster"], &[])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (time, mut goals) = (options.millis(200, 600), Targets::default());
    let (name, report) = if options.has("--cluster") {
        ("redis-cluster", runtime.block_on(cluster::measure(time, &mut goals))?)
    } else {
        ("redis", runtime.block_on(run(time, &mut goals))?)
    };
    goals.end(name, report, options.check)
}

async fn run(time: Duration, goals: &mut Targets) -> Result<Json> {
    let server = RedisServer::start()?;
    let backend = RedisBackend::connect(&server.url()).await?;
    let costs = cost::measure(&server, &backend).await?;
    println!("Server time per call, in µs, of single calls one after another:");
    for (name, micros) in &costs {
        println!("  {name:<28} {micros:>6.2}");
    }
    let memory = cost::memory(&server, &backend).await?;
    println!("Bytes:");
    for (name, bytes) in &memory {
        println!("  {name:<28} {bytes:>6.0}");
    }

    println!("\nCycles of acquire and release:");
    let ways = Way::all(&server, backend).await?;
    let mut table = Vec::new();
    for concurrency in CONCURRENCY {
        let mut rounds: Vec<Vec<Figures>> = ways.iter().map(|_| Vec::new()).collect();
        for _ in 0..ROUNDS {
            for (way, figures) in ways.iter().zip(&mut rounds) {
                figures.push(way.measure(&server, concurrency, time).await?);
            }
        }
        println!(
            "\n  {:<34} {:>9} {:>9} {:>9} {:>10} {:>10}",
            format!("{concurrency} at once"),
            "cycles/s",
            "p50 µs",
            "p99 µs",
            "client µs",
            "server µs"
        );
        let medians: Vec<Figures> = rounds.into_iter().map(Figures::median).collect();
        for (way, figures) in ways.iter().zip(&medians) {
            let Figures { per_second, p50, p99, client, server } = figures;
            let name = way.name();
            println!(
                "  {name:<34} {per_second:>9.0} {p50:>9.0} {p99:>9.0} {client:>10.1} {server:>10.1}"
            );
            table.push(json!({
                "way": way.name(), "concurrency": concurrency, "cycles_per_second": per_second,
                "p50_us": p50, "p99_us": p99, "client_cpu_us": client, "server_cpu_us": server,
            }));
        }
        compare(concurrency, &medians, goals);
    }
    Ok(json!({ "server_us_per_call": costs, "bytes": memory, "cycles": table }))
}

/// How many cycles the library does for each one of the other ways.
fn compare(concurrency: usize, figures: &[Figures], goals: &mut Targets) {
    let [a, b, c, d, e, f] = figures else { return };
    let of = |other: &Figures| a.per_second / other.per_second;
    goals.at_least(&format!("{concurrency} at once, cycles of (b)"), of(b), 0.8);
    goals.ratio(concurrency, "the same scripts on fred", of(b));
    goals.ratio(concurrency, "rslock, which has no fence", of(d));
    println!(
        "    cycles of (c) {:.2}, of (d) {:.2}, of (e) {:.2}, of (f) {:.2}",
        of(c),
        of(d),
        of(e),
        of(f)
    );
}
