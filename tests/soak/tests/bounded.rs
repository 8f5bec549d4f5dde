//! A short soak: each store for some seconds, until each fault has occurred once.

#![allow(clippy::print_stdout, reason = "reports for a human eye")]

use std::process::Command;
use std::sync::{Mutex, PoisonError};
use std::thread;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_effort::either;

/// The stores, three at a time: a machine of two cores has no capacity for more.
const STORES: [[&str; 3]; 2] =
    [["redis", "postgres", "sqlite"], ["redis-cluster", "pgbouncer", "firestore"]];

/// Runs of both tests at once would be too many.
static ONE_TEST_AT_A_TIME: Mutex<()> = Mutex::new(());

/// Runs all at once; returns the failures.
fn side_by_side<T: Copy + Send + Sync>(
    all: &[T],
    run: impl Fn(T) -> Result<()> + Sync,
) -> Vec<String> {
    let run = &run;
    thread::scope(|scope| {
        let runs: Vec<_> = all.iter().map(|it| scope.spawn(move || run(*it))).collect();
        let results = runs.into_iter().map(|run| run.join().unwrap());
        results.filter_map(Result::err).map(|error| format!("{error:#}")).collect()
    })
}

/// The success and the output.
fn soak(arguments: &[&str]) -> Result<(bool, String)> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    command.args(["run", "--processes", either("2", "4"), "--tasks", "3"]).args(arguments);
    let output = command.output().context("the soak program")?;
    let said = [output.stdout, output.stderr].concat();
    Ok((output.status.success(), String::from_utf8_lossy(&said).into_owned()))
}

#[test]
fn fleets_of_processes_break_no_invariant_on_any_store() {
    let _guard = ONE_TEST_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    for stores in STORES {
        let errors = side_by_side(&stores, |store| {
            let (is_clean, said) = soak(&["--store", store, "--for", either("6s", "10s")])?;
            println!("{said}");
            ensure!(is_clean, "{store}: {said}");
            Ok(())
        });
        assert!(errors.is_empty(), "{}", errors.join("\n"));
    }
}

/// A run that never finds a violation would prove nothing.
#[test]
fn planted_flaws_are_found_and_shrunk() {
    let _guard = ONE_TEST_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let flaws = [
        // Two holders at once, by their own clocks or by the store's.
        ("second-holder", ["invariant 1 ", "invariant 2 "]),
        ("repeated-fence", ["invariant 3 "; 2]),
        ("endless-release", ["invariant 4 "; 2]),
        // The lock is released a second time, successfully, or the violation is seen before that.
        ("orphans", ["invariant 4 ", "invariant 7 "]),
    ];
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().display().to_string();
    let errors = side_by_side(&flaws, |(flaw, invariants)| {
        let arguments =
            ["--store", "sqlite", "--for", either("15s", "60s"), "--flaw", flaw, "--folder", &kept];
        let (is_clean, said) = soak(&arguments)?;
        ensure!(!is_clean, "{flaw} was not found: {said}");
        let is_named = invariants.iter().any(|invariant| said.contains(invariant));
        ensure!(is_named, "{flaw}: none of {invariants:?} in {said}");
        for word in ["the fewest operations that show it", "again, with"] {
            ensure!(said.contains(word), "{flaw}: no {word:?} in {said}");
        }
        Ok(())
    });
    assert!(errors.is_empty(), "{}", errors.join("\n"));
}
