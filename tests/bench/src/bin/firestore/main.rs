//! `cargo xtask bench firestore`: cycles of acquire and release on the emulator, each on an uncontended key.

mod transactions;

use anyhow::Result;
use syncguard_bench::firestore::Raw;
use syncguard_bench::{Options, Report, Table, Way};
use syncguard_firestore::FirestoreBackend;
use syncguard_test_services::firestore::FirestoreEmulator;

use crate::transactions::Transactions;

#[tokio::main]
async fn main() -> Result<()> {
    let options = Options::parse(&[])?;
    let (time, mut report) = (options.time(750)?, Report::default());
    let emulator = FirestoreEmulator::start()?;
    let raw = || Raw::new(emulator.port());
    raw()?.warm_up().await?;
    // With the number of transactions that the backend is to be faster than.
    for (callers, least) in [(1, 2.0), (16, 20.0)] {
        let backend = FirestoreBackend::connect(&raw()?.url()).await?;
        let transactions = Transactions(raw()?);
        let ways = vec![
            Way::backend("(a) syncguard-firestore", backend),
            Way::new("(b) the bare calls", raw()?, |raw, key| async move {
                let written = raw.take(&key).await?;
                raw.give_back(&key, written).await
            }),
            Way::new("(c) read-write transactions", transactions, |them, key| async move {
                them.cycle(&key).await
            }),
        ];
        let table = Table::measure(ways, callers, "", time).await?;
        table.compare([0, 1], Some(0.9), &mut report);
        table.compare([0, 2], Some(least), &mut report);
    }
    report.end(options.check)
}
