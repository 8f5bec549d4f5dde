//! `cargo xtask bench firestore`: cycles of acquire and release on the emulator.
//!
//! Every way in every situation, one after the other, in several rounds; the median round
//! counts. A table goes to the terminal, everything to `target/bench/firestore.json`.

mod bare;
mod cycles;
#[path = "../../tests/firestore/support.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod support;
#[path = "../../tests/firestore/transactional.rs"]
mod transactional;

use std::path::Path;
use std::time::Duration;

use anyhow::Result;
use serde_json::{Value as Json, json};

use crate::cycles::{Figures, Way};

const ROUNDS: usize = 7;

fn main() -> Result<()> {
    let quick = std::env::args().any(|argument| argument == "--quick");
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let report = runtime.block_on(run(Duration::from_millis(if quick { 300 } else { 1000 })))?;
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../target/bench");
    std::fs::create_dir_all(&folder)?;
    std::fs::write(folder.join("firestore.json"), serde_json::to_string_pretty(&report)?)?;
    Ok(())
}

async fn run(time: Duration) -> Result<Json> {
    let url = support::fresh();
    let ways = Way::all();
    // Java takes its time until it is as fast as it gets.
    for _ in 0..2 {
        Way::Bare.measure(&url, 16, false, time).await?;
        Way::Ours.measure(&url, 16, false, time).await?;
    }
    let mut table = Vec::new();
    for (workers, one_key) in [(1, false), (16, false), (16, true)] {
        let mut rounds: Vec<Vec<Figures>> = ways.iter().map(|_| Vec::new()).collect();
        for round in 0..ROUNDS {
            for (way, figures) in ways.iter().zip(&mut rounds) {
                // Side by side, transactions wait for each other for so long that once must do.
                if *way == Way::Transactions && workers > 1 && round > 0 {
                    continue;
                }
                figures.push(way.measure(&url, workers, one_key, time).await?);
            }
        }
        let keys = if one_key { "one key" } else { "distinct keys" };
        println!(
            "\n  {:<34} {:>9} {:>9} {:>9} {:>11}",
            format!("{workers} at once, {keys}"),
            "cycles/s",
            "p50 ms",
            "p99 ms",
            "calls/cycle"
        );
        let medians: Vec<Figures> = rounds.into_iter().map(Figures::median).collect();
        for (way, figures) in ways.iter().zip(&medians) {
            let Figures { per_second, p50, p99, calls } = figures;
            println!("  {:<34} {per_second:>9.1} {p50:>9.2} {p99:>9.2} {calls:>11.2}", way.name());
            table.push(json!({
                "way": way.name(), "workers": workers, "one_key": one_key,
                "cycles_per_second": per_second, "p50_ms": p50, "p99_ms": p99,
                "calls_per_cycle": calls,
            }));
        }
        let speed = |way: Way| {
            let index = ways.iter().position(|other| *other == way);
            index.map_or(f64::NAN, |index| medians[index].per_second)
        };
        println!(
            "  of the bare calls {:.2}, times the transactions {:.1}",
            speed(Way::Ours) / speed(Way::Bare),
            speed(Way::Ours) / speed(Way::Transactions)
        );
    }
    Ok(json!({ "cycles": table }))
}
