//! The soak in small: each store for some seconds, until everything has gone wrong once.

#![allow(clippy::print_stdout, reason = "reports for a human eye")]

use std::process::{Command, Output};
use std::thread;

use anyhow::{Context as _, Result, ensure};

const STORES: [&str; 6] =
    ["redis", "redis-cluster", "postgres", "pgbouncer", "firestore", "sqlite"];

fn soak(arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_soak"));
    command.args(["run", "--processes", "4", "--tasks", "3"]).args(arguments);
    command.output().context("the soak program")
}

#[test]
fn fleets_of_processes_break_no_invariant_on_any_store() {
    thread::scope(|scope| {
        let runs = STORES.map(|store| {
            scope.spawn(move || -> Result<()> {
                let output = soak(&["--store", store, "--for", "10s"])?;
                let (said, errors) = (
                    String::from_utf8_lossy(&output.stdout),
                    String::from_utf8_lossy(&output.stderr),
                );
                println!("{said}");
                ensure!(output.status.success(), "{store}: {said}{errors}");
                Ok(())
            })
        });
        let results = runs.map(|run| run.join().unwrap());
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    });
}

/// Each in a fleet of its own, and none may go by: a run that finds nothing would be worth nothing.
#[test]
fn planted_flaws_are_found_and_shrunk() {
    let flaws = [
        ("second-holder", "invariant 1 "),
        ("repeated-fence", "invariant 3 "),
        ("endless-release", "invariant 4 "),
        ("undead", "invariant 5 "),
        ("orphans", "invariant 7 "),
    ];
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().display().to_string();
    thread::scope(|scope| {
        let runs = flaws.map(|(flaw, invariant)| {
            let kept = &kept;
            scope.spawn(move || -> Result<()> {
                let arguments =
                    ["--store", "sqlite", "--for", "60s", "--flaw", flaw, "--folder", kept];
                let output = soak(&arguments)?;
                let said = String::from_utf8_lossy(&output.stdout);
                let errors = String::from_utf8_lossy(&output.stderr);
                ensure!(!output.status.success(), "{flaw}: it was not found: {said}");
                for word in [invariant, "the fewest operations that show it", "again, with"] {
                    ensure!(said.contains(word), "{flaw}: no {word:?} in {said}{errors}");
                }
                Ok(())
            })
        });
        let results = runs.map(|run| run.join().unwrap());
        let errors: Vec<_> = results.into_iter().filter_map(Result::err).collect();
        assert!(errors.is_empty(), "{errors:#?}");
    });
}
