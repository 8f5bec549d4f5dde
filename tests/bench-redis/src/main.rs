//! `cargo xtask bench redis`: cycles of acquire and release, each on a key nobody else wants.
//!
//! Everything runs against one server, one after the other, in several rounds; the median round
//! counts. A table goes to the terminal, everything to `target/bench/redis.json`. With `--cluster` it
//! is a cluster of three masters beside one server, and nothing else.

mod cluster;
mod cost;
mod cycles;
mod floor;

use std::alloc::System;
use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value as Json, json};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use syncguard_redis::RedisBackend;
use syncguard_test_services::redis::RedisServer;

use crate::cycles::{Figures, Way};

#[global_allocator]
pub(crate) static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const CONCURRENCY: [usize; 4] = [1, 16, 64, 256];
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let is_cluster = std::env::args().any(|argument| argument == "--cluster");
    let round_ms = if quick { 200 } else { 600 };
    let (name, report) = if is_cluster {
        let time = Duration::from_millis(round_ms);
        ("redis-cluster.json", runtime.block_on(cluster::measure(time))?)
    } else {
        ("redis.json", runtime.block_on(run(round_ms))?)
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join(name), serde_json::to_string_pretty(&report)?)?;
    Ok(())
}

async fn run(round_ms: u64) -> Result<Json> {
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
                let time = Duration::from_millis(round_ms);
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
        targets(concurrency, &medians);
    }
    Ok(json!({ "server_us_per_call": costs, "bytes": memory, "cycles": table }))
}

/// What is to be reached.
fn targets(concurrency: usize, figures: &[Figures]) {
    let [a, b, c, d, e, f] = figures else { return };
    let rate = |other: &Figures| a.per_second / other.per_second;
    let verdict = |what: &str, ratio: f64, holds: bool| {
        println!("    {} {what}: {ratio:.2}", if holds { "holds" } else { "FAILS" });
    };
    verdict("against (b), 0.95 or more", rate(b), rate(b) >= 0.95);
    if concurrency >= 64 {
        verdict("against (c), 1.5 or more", rate(c), rate(c) >= 1.5);
    }
    verdict("against (d), above 1", rate(d), rate(d) > 1.0);
    verdict("against (f), 0.9 or more", rate(f), rate(f) >= 0.9);
    if concurrency == 1 {
        verdict("p50 against (e), at most 1.15", a.p50 / e.p50, a.p50 / e.p50 <= 1.15);
    }
}
