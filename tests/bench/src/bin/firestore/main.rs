//! `cargo xtask bench firestore`: cycles of acquire and release on the emulator.
//!
//! In each situation all ways are measured by turns, in short slices and in a changing order, so that noise of the
//! machine affects all of them alike; ratios are medians over the slices, each beside its neighbors. A table goes to
//! the terminal, everything to `target/bench/firestore.json`. `--quick` takes a fifth of the time.

mod bare;
mod calls;
mod cycles;
#[path = "../../../../tests/firestore/support.rs"]
#[allow(dead_code, reason = "shared with the tests, which use all of it")]
mod support;
#[path = "../../../../tests/firestore/transactional.rs"]
mod transactional;

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value as Json, json};
use syncguard_bench::{Options, Targets};

use crate::cycles::{Client, Slice, Way};

/// How many workers, and whether they want the same key.
const SITUATIONS: [(usize, bool); 4] = [(1, false), (1, true), (16, false), (16, true)];

const SLICE: Duration = Duration::from_millis(250);
const SLICES: usize = 15;

/// Concurrent transactions wait for each other for seconds, so there is one long slice.
const LONG_SLICE: Duration = Duration::from_secs(5);

/// The targets of the backend beside the bare calls, and beside the transactions on separate keys, by workers.
const OF_BARE: f64 = 0.9;
const TIMES_TRANSACTIONS: [(usize, f64); 2] = [(1, 2.0), (16, 20.0)];

fn main() -> Result<()> {
    let options = Options::parse(&[], &[])?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let (slices, mut goals) = (if options.quick { SLICES / 5 } else { SLICES }, Targets::default());
    let report = runtime.block_on(run(slices, &mut goals))?;
    goals.end("firestore", report, options.check)
}

async fn run(slices: usize, goals: &mut Targets) -> Result<Json> {
    let url = support::fresh();
    let mut clients = Vec::new();
    for way in Way::ALL {
        clients.push((way, Client::new(way, &url).await?));
    }
    // Java needs a warm-up.
    for (way, client) in clients.iter().cycle().take(slices.max(10) * Way::ALL.len()) {
        if *way != Way::Transactions {
            client.measure(16, false, SLICE).await?;
        }
    }
    let mut table = Vec::new();
    for (workers, one_key) in SITUATIONS {
        let measured = situation(&clients, workers, one_key, slices).await?;
        table.extend(report(&measured, workers, one_key, goals)?);
    }
    Ok(json!({ "cycles": table, "calls": calls::per_operation().await? }))
}

/// The slices of each way, round by round.
async fn situation(
    clients: &[(Way, Arc<Client>)],
    workers: usize,
    one_key: bool,
    slices: usize,
) -> Result<Vec<(Way, Vec<Slice>)>> {
    let mut measured: Vec<_> = clients.iter().map(|(way, _)| (*way, Vec::new())).collect();
    for round in 0..slices {
        for turn in 0..clients.len() {
            let index = (turn + round) % clients.len();
            let (way, client) = &clients[index];
            if *way != Way::Transactions || workers == 1 {
                measured[index].1.push(client.measure(workers, one_key, SLICE).await?);
            }
        }
    }
    for ((_, client), (_, slices)) in clients.iter().zip(&mut measured) {
        if slices.is_empty() {
            slices.push(client.measure(workers, one_key, LONG_SLICE).await?);
        }
    }
    Ok(measured)
}

/// Prints the results of a situation, and returns them for the file.
fn report(
    measured: &[(Way, Vec<Slice>)],
    workers: usize,
    one_key: bool,
    goals: &mut Targets,
) -> Result<Vec<Json>> {
    let keys = if one_key { "one key" } else { "distinct keys" };
    println!(
        "\n  {:<34} {:>9} {:>9} {:>9} {:>11}",
        format!("{workers} at once, {keys}"),
        "cycles/s",
        "p50 ms",
        "p99 ms",
        "calls/cycle"
    );
    let mut table = Vec::new();
    for (way, slices) in measured {
        let mut cycles: Vec<f64> = slices.iter().flat_map(|slice| slice.cycles.clone()).collect();
        ensure!(!cycles.is_empty(), "{way:?}: not one cycle");
        cycles.sort_by(f64::total_cmp);
        let quantile = |q: f64| cycles[((cycles.len() - 1) as f64 * q) as usize];
        let per_second = median(slices.iter().map(Slice::per_second));
        let calls =
            slices.iter().map(|slice| slice.calls).sum::<u64>() as f64 / cycles.len() as f64;
        let (p50, p99) = (quantile(0.5), quantile(0.99));
        println!("  {:<34} {per_second:>9.1} {p50:>9.2} {p99:>9.2} {calls:>11.2}", way.name());
        table.push(json!({
            "way": way.name(), "workers": workers, "one_key": one_key,
            "cycles_per_second": per_second, "p50_ms": p50, "p99_ms": p99,
            "calls_per_cycle": calls,
        }));
    }
    let row = format!("{workers} at once, {keys}, cycles of");
    let of_bare = ratio(measured, Way::Bare);
    goals.at_least(&format!("{row} the bare calls"), of_bare, OF_BARE);
    let (what, times) = (format!("{row} the transactions"), ratio(measured, Way::Transactions));
    if !one_key {
        goals.ratio(workers, "the bare calls", of_bare);
        goals.ratio(workers, "read-write transactions", times);
    }
    match TIMES_TRANSACTIONS.into_iter().find(|(at, _)| *at == workers && !one_key) {
        Some((_, least)) => goals.at_least(&what, times, least),
        None => println!("    {what}: {times:.1}"),
    }
    Ok(table)
}

/// How many times another way's cycles the backend does, slice beside slice.
fn ratio(measured: &[(Way, Vec<Slice>)], other: Way) -> f64 {
    let of = |way: Way| {
        let slices = measured.iter().find(|(found, _)| *found == way);
        slices.map_or::<&[Slice], _>(&[], |(_, slices)| slices).iter().map(Slice::per_second)
    };
    if of(Way::Ours).len() == of(other).len() {
        median(of(Way::Ours).zip(of(other)).map(|(ours, other)| ours / other))
    } else {
        median(of(Way::Ours)) / median(of(other))
    }
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
