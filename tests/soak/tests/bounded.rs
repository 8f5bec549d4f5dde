//! A short soak: each store for some seconds, until each fault has occurred once.

#![allow(clippy::print_stdout, reason = "reports for a human eye")]

use std::process::Command;
use std::thread;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_effort::either;
use syncguard_test_services::store::Store;

use crate::kind::Kind;

#[test]
fn fleets_of_processes_break_no_invariant_on_any_store() {
    // In a full run also by the other ways to the same stores.
    let ways = either(1, usize::MAX);
    let kinds = Store::ALL.into_iter().flat_map(|store| Kind::of(store).iter().take(ways));
    // Three at a time: a machine of two cores has no capacity for more.
    for kinds in kinds.collect::<Vec<_>>().chunks(3) {
        let errors: Vec<String> = thread::scope(|scope| {
            let runs: Vec<_> =
                kinds.iter().map(|kind| scope.spawn(|| soak(&kind.to_string()))).collect();
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
