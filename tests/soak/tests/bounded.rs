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
