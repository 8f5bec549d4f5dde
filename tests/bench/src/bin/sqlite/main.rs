//! `cargo xtask bench sqlite`: cycles of acquire and release, each on an uncontended key.
//!
//! Everything runs on one disk, one after the other, in several rounds; the median round counts. A table
//! goes to the terminal, everything to `target/bench/sqlite.json`. With `--quick`, rounds are short.

mod bare;
mod processes;
mod size;
mod ways;

use std::path::Path;

use anyhow::Result;
use serde_json::{Value as Json, json};
use syncguard_bench::{Options, Targets, folder};
use tokio::runtime::{Builder, Runtime};

use crate::ways::{Figures, Way};

const CONCURRENCY: [usize; 3] = [1, 16, 64];
const PROCESSES: usize = 4;
const ROUNDS: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [worker, way, file, number, millis] = arguments.as_slice()
        && worker == "worker"
    {
        return processes::work(way, Path::new(file), number, millis.parse()?);
    }
    let options = Options::parse(&[], &[])?;
    let (time, mut goals) = (options.millis(400, 1500), Targets::default());
    // On the disk: a folder for temporary files may be in memory.
    let folder = tempfile::tempdir_in(folder()?)?;
    let runtime = Builder::new_multi_thread().enable_all().build()?;
    let mut report = Vec::new();
    println!("Cycles of acquire and release:");
    for concurrency in CONCURRENCY {
        let ways = runtime.block_on(Way::all(folder.path()))?;
        let figures = rounds(&ways, |way| {
            way.clear(folder.path())?;
            runtime.block_on(way.measure(folder.path(), concurrency, time))
        })?;
        table(&format!("{concurrency} at once"), &ways, &figures, &mut report);
        compare(concurrency, &figures, &mut goals);
    }
    let ways = processes::WAYS;
    let figures = rounds(&ways, |way| processes::measure(way, folder.path(), PROCESSES, time))?;
    table(&format!("{PROCESSES} processes"), &ways, &figures, &mut report);
    println!("    against (a): {:.2}", figures[0].per_second / figures[1].per_second);
    let cycles = if options.quick { 100_000 } else { 1_000_000 };
    let sizes = size::measure(&runtime, folder.path(), cycles)?;
    goals.end("sqlite", json!({ "cycles": report, "sizes": sizes }), options.check)
}

/// The ways by turns, several times, so that other work of the machine affects all of them.
fn rounds<W>(ways: &[W], mut measure: impl FnMut(&W) -> Result<Figures>) -> Result<Vec<Figures>> {
    let mut rounds: Vec<Vec<Figures>> = ways.iter().map(|_| Vec::new()).collect();
    for _ in 0..ROUNDS {
        for (way, figures) in ways.iter().zip(&mut rounds) {
            figures.push(measure(way)?);
        }
    }
    Ok(rounds.into_iter().map(Figures::median).collect())
}

fn table<W: std::fmt::Display>(
    title: &str,
    ways: &[W],
    figures: &[Figures],
    report: &mut Vec<Json>,
) {
    println!("\n  {title:<44} {:>9} {:>9} {:>9}", "cycles/s", "p50 µs", "p99 µs");
    for (way, Figures { per_second, p50, p99 }) in ways.iter().zip(figures) {
        println!("  {:<44} {per_second:>9.0} {p50:>9.0} {p99:>9.0}", way.to_string());
        report.push(json!({
            "way": way.to_string(), "at_once": title, "cycles_per_second": per_second,
            "p50_us": p50, "p99_us": p99,
        }));
    }
}

/// How many cycles the library does for each one of (a) with the same promise.
fn compare(concurrency: usize, figures: &[Figures], goals: &mut Targets) {
    let [full, bare, normal, bare_normal, ..] = figures else { return };
    let (of, of_normal) =
        (full.per_second / bare.per_second, normal.per_second / bare_normal.per_second);
    goals.ratio(concurrency, "the same SQL on rusqlite", of);
    let what = format!("{concurrency} at once, synchronous=full, cycles of (a)");
    match concurrency {
        1 => goals.at_least(&what, of, 0.5),
        64 => goals.at_least(&what, of, 3.0),
        _ => println!("    {what}: {of:.2}"),
    }
    println!("    {concurrency} at once, synchronous=normal, cycles of (a): {of_normal:.2}");
}

/// A runtime of one thread, for a process that only needs one.
pub(crate) fn runtime() -> Result<Runtime> {
    Ok(Builder::new_current_thread().enable_all().build()?)
}
