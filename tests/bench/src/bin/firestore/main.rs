//! `cargo xtask bench firestore`: cycles of acquire and release on the emulator, each on an uncontended key.
//!
//! A table goes to the terminal, the ratios to `target/bench/firestore.json`.

mod transactions;

use anyhow::Result;
use syncguard_bench::firestore::Raw;
use syncguard_bench::{Options, Report, Table, Way, cycle};
use syncguard_firestore::FirestoreBackend;
use syncguard_test_services::firestore::FirestoreEmulator;

use crate::transactions::Transactions;

/// With the number of transactions that the backend is to be faster than.
const CALLERS: [(usize, f64); 2] = [(1, 2.0), (16, 20.0)];

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(250, 750)?, Report::default());
    let emulator = FirestoreEmulator::start()?;
    let raw = || Raw::new(emulator.port());
    raw()?.warm_up().await?;
    for (callers, times_transactions) in CALLERS {
        let ways = vec![
            Locks::Backend(raw()?.backend()?),
            Locks::Bare(raw()?),
            Locks::Transactions(Transactions(raw()?)),
        ];
        let table = Table::measure(ways, callers, time).await?;
        table.print("");
        let (of_bare, of_transactions) = (table.ratio(0, 1), table.ratio(0, 2));
        report.at_least(&format!("{callers} at once, cycles of (b)"), of_bare, 0.9);
        let row = format!("{callers} at once, cycles of (c)");
        report.at_least(&row, of_transactions, times_transactions);
        report.ratio(callers, "the bare calls", of_bare);
        report.ratio(callers, "read-write transactions", of_transactions);
    }
    report.end("firestore", options.check)
}

#[derive(Clone)]
enum Locks {
    Backend(FirestoreBackend),
    Bare(Raw),
    Transactions(Transactions),
}

impl Way for Locks {
    fn name(&self) -> &'static str {
        match self {
            Self::Backend(_) => "(a) syncguard-firestore",
            Self::Bare(_) => "(b) the bare calls",
            Self::Transactions(_) => "(c) read-write transactions",
        }
    }

    async fn cycle(&self, task: usize) -> Result<()> {
        let key = format!("task {task}");
        match self {
            Self::Backend(backend) => cycle(backend, &key).await,
            Self::Bare(raw) => {
                let written = raw.take(&key).await?;
                raw.give_back(&key, written).await
            }
            Self::Transactions(transactions) => transactions.cycle(&key).await,
        }
    }
}
