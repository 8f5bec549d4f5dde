//! `cargo xtask bench postgres`: cycles of acquire and release, each task on a key of its own, and
//! attempts on a key that is held.
//!
//! Everything runs against one server with the settings it comes with, `fsync` included, one after the
//! other, in several rounds; the median round counts. A table goes to the terminal, everything to
//! `target/bench/postgres.json`.

mod figures;
mod naive;
mod pgbench;
mod ways;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value as Json, json};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;

use crate::figures::Figures;
use crate::ways::{POOL, Way};

const CONCURRENCY: [usize; 3] = [1, 16, 64];

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let no_fsync = std::env::args().any(|argument| argument == "--no-fsync");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (rounds, millis) = if quick { (3, 600) } else { (5, 1500) };
    let report = runtime.block_on(run(no_fsync, rounds, Duration::from_millis(millis)))?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder)?;
    let name = if no_fsync { "postgres-no-fsync.json" } else { "postgres.json" };
    std::fs::write(folder.join(name), serde_json::to_string_pretty(&report)?)?;
    Ok(())
}

async fn run(no_fsync: bool, rounds: usize, time: Duration) -> Result<Json> {
    let mut server = PostgresServer::builder().config("max_connections = 200");
    if no_fsync {
        server = server.config("fsync = off");
    }
    let server = server.start()?;
    let proxy = FaultProxy::start(server.port())?;
    // There and back: one millisecond more.
    let half = Duration::from_micros(500);
    proxy.set_latency(half, half);

    let mut cycles = Vec::new();
    let mut special = Vec::new();
    for (latency, port) in [(0, server.port()), (1, proxy.port())] {
        if only("--latency").is_some_and(|only| only != latency) {
            continue;
        }
        for concurrency in CONCURRENCY {
            if only("--concurrency").is_some_and(|only| only != concurrency as u64) {
                continue;
            }
            let ways = Way::all(port, concurrency).await?;
            let medians = measure(&ways, rounds, time).await?;
            head(&format!("{concurrency} at once, {latency} ms added: cycles"));
            for (way, figures) in ways.iter().zip(&medians) {
                line(way.name(), figures);
                cycles.push(figures.json(way.name(), concurrency, latency));
            }
            cycle_targets(concurrency, latency, &medians);
        }

        let ways = Way::held(port).await?;
        let medians = measure(&ways, rounds, time).await?;
        head(&format!("16 at once, {latency} ms added: attempts on a held key"));
        for (way, figures) in ways.iter().zip(&medians) {
            line(way.name(), figures);
            special.push(figures.json(way.name(), 16, latency));
        }
        let ratio = medians[0].per_second / medians[1].per_second;
        verdict("attempts against (c), 8 or more", ratio, ratio >= 8.0);

        let ways = Way::single(port).await?;
        let medians = measure(&ways, rounds, time).await?;
        head(&format!("1 at once, {latency} ms added: single statements"));
        for (way, figures) in ways.iter().zip(&medians) {
            line(way.name(), figures);
            special.push(figures.json(way.name(), 1, latency));
        }
        if latency > 0 {
            let ratio = medians[0].p50 / medians[1].p50;
            verdict("p50 of an acquire against an UPDATE's, at most 1.1", ratio, ratio <= 1.1);
        }
    }
    Ok(json!({ "pool": POOL, "fsync": !no_fsync, "cycles": cycles, "special": special }))
}

/// The number after an option.
fn only(option: &str) -> Option<u64> {
    std::env::args().skip_while(|argument| argument != option).nth(1)?.parse().ok()
}

/// The median of several rounds, in which the ways take turns.
async fn measure(ways: &[Way], rounds: usize, time: Duration) -> Result<Vec<Figures>> {
    let mut all: Vec<Vec<Figures>> = ways.iter().map(|_| Vec::new()).collect();
    for way in ways {
        way.measure(time / 4).await?; // connections, statements, pages
    }
    for _ in 0..rounds {
        for (way, figures) in ways.iter().zip(&mut all) {
            figures.push(way.measure(time).await?);
        }
    }
    Ok(all.into_iter().map(Figures::median).collect())
}

/// What is to be reached.
fn cycle_targets(concurrency: usize, latency: u64, figures: &[Figures]) {
    let [a, b, c, _] = figures else { return };
    let (sql, naive) = (a.per_second / b.per_second, a.per_second / c.per_second);
    if concurrency > 1 {
        verdict("against (b), 0.9 or more", sql, sql >= 0.9);
    }
    let least = if latency == 0 { 1.6 } else { 5.0 };
    verdict(&format!("against (c), {least} or more"), naive, naive >= least);
}

fn head(title: &str) {
    println!("\n  {title:<58} {:>9} {:>9} {:>9}", "per s", "p50 µs", "p99 µs");
}

fn line(name: &str, figures: &Figures) {
    let Figures { per_second, p50, p99 } = figures;
    println!("  {name:<58} {per_second:>9.0} {p50:>9.0} {p99:>9.0}");
}

fn verdict(what: &str, ratio: f64, holds: bool) {
    println!("    {} {what}: {ratio:.2}", if holds { "holds" } else { "FAILS" });
}
