//! A short soak: each store for some seconds, until each fault has occurred once.

#![allow(clippy::print_stdout, reason = "reports for a human eye")]

use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_effort::either;

/// The stores, three at a time: a machine of two cores has no capacity for more.
const STORES: [&[&str]; 2] = [&["redis", "postgres", "sqlite"], &["etcd", "firestore"]];
/// The same stores by other ways.
const WAYS: [&str; 2] = ["redis-cluster", "pgbouncer"];

#[test]
fn fleets_of_processes_break_no_invariant_on_any_store() {
    for stores in STORES.into_iter().chain(either(None, Some(&WAYS[..]))) {
        let errors: Vec<String> = thread::scope(|scope| {
            let runs: Vec<_> =
                stores.iter().map(|store| scope.spawn(move || soak(store))).collect();
            let results = runs.into_iter().map(|run| run.join().unwrap());
            results.filter_map(Result::err).map(|error| format!("{error:#}")).collect()
        });
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

fn soak(store: &str) -> Result<()> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    command.args(["run", "--store", store, "--for", either("6s", "10s")]).args([
        "--processes",
        either("2", "4"),
        "--tasks",
        "3",
    ]);
    let output = command.output().context("the soak program")?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    println!("{said}");
    ensure!(output.status.success(), "{store}: {said}");
    Ok(())
}
