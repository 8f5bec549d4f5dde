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

use std::time::Duration;

use anyhow::Result;
use serde_json::{Value as Json, json};
use syncguard_bench::{Options, Targets};
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::proxy::FaultProxy;

use crate::figures::Figures;
use crate::ways::{POOL, Way};

const CONCURRENCY: [usize; 3] = [1, 16, 64];

fn main() -> Result<()> {
    let options = Options::parse(&["--no-fsync"], &["--latency", "--concurrency"])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let mut goals = Targets::default();
    let report = runtime.block_on(run(&options, &mut goals))?;
    let name = if options.has("--no-fsync") { "postgres-no-fsync" } else { "postgres" };
    goals.end(name, report, options.check)
}

async fn run(options: &Options, goals: &mut Targets) -> Result<Json> {
    let (rounds, time) = (if options.quick { 3 } else { 5 }, options.millis(600, 1500));
    let no_fsync = options.has("--no-fsync");
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
        if !options.wants("--latency", |only| only == latency.to_string()) {
            continue;
        }
        for concurrency in CONCURRENCY {
            if !options.wants("--concurrency", |only| only == concurrency.to_string()) {
                continue;
            }
            let ways = Way::all(port, concurrency).await?;
            let medians = measure(&ways, rounds, time).await?;
            head(&format!("{concurrency} at once, {latency} ms added: cycles"));
            for (way, figures) in ways.iter().zip(&medians) {
                line(way.name(), figures);
                cycles.push(figures.json(way.name(), concurrency, latency));
            }
            compare(concurrency, latency, &medians, goals);
        }

        let ways = Way::held(port).await?;
        let medians = measure(&ways, rounds, time).await?;
        head(&format!("16 at once, {latency} ms added: attempts on a held key"));
        for (way, figures) in ways.iter().zip(&medians) {
            line(way.name(), figures);
            special.push(figures.json(way.name(), 16, latency));
        }
        let ratio = medians[0].per_second / medians[1].per_second;
        // The transactions wait for each other's commits, so a slow disk makes the ratio larger.
        goals.at_least(&format!("{latency} ms added, attempts of (c)"), ratio, 3.0);

        let ways = Way::single(port).await?;
        let medians = measure(&ways, rounds, time).await?;
        head(&format!("1 at once, {latency} ms added: single statements"));
        for (way, figures) in ways.iter().zip(&medians) {
            line(way.name(), figures);
            special.push(figures.json(way.name(), 1, latency));
        }
        if latency > 0 {
            let ratio = medians[0].p50 / medians[1].p50;
            goals.at_most("p50 of an acquire over that of an UPDATE", ratio, 1.2);
        }
    }
    Ok(json!({ "pool": POOL, "fsync": !no_fsync, "cycles": cycles, "special": special }))
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

/// How many cycles the library does for each one of the other ways.
fn compare(concurrency: usize, latency: u64, figures: &[Figures], goals: &mut Targets) {
    let [a, b, c, d] = figures else { return };
    let of = |other: &Figures| a.per_second / other.per_second;
    let row = format!("{concurrency} at once, {latency} ms added, cycles of");
    if concurrency > 1 {
        goals.at_least(&format!("{row} (b)"), of(b), 0.9);
    }
    // The naive transaction awaits more statements; with many at once, both use up the processors.
    let least = match (latency, concurrency) {
        (0, _) => 1.4,
        (_, 1) => 4.0,
        _ => 2.5,
    };
    goals.at_least(&format!("{row} (c)"), of(c), least);
    if latency == 0 {
        goals.ratio(concurrency, "the same SQL by pgbench", of(b));
        goals.ratio(concurrency, "a transaction that awaits each statement", of(c));
    }
    println!("    cycles of (b) {:.2}, of (c) {:.2}, of (d) {:.2}", of(b), of(c), of(d));
}

fn head(title: &str) {
    println!("\n  {title:<58} {:>9} {:>9} {:>9}", "per s", "p50 µs", "p99 µs");
}

fn line(name: &str, figures: &Figures) {
    let Figures { per_second, p50, p99 } = figures;
    println!("  {name:<58} {per_second:>9.0} {p50:>9.0} {p99:>9.0}");
}
