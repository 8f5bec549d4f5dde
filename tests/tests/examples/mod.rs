//! The examples, as processes on real servers: their promises are checked from outside.

mod fenced_write;
mod leader;
mod migration_gate;
mod nightly_job;
mod stage;
mod webhook;

use std::process::Command;

/// Examples that need no server end by themselves.
#[test]
fn examples_without_a_server_end_well() {
    for program in [
        env!("CARGO_BIN_EXE_example-custom-backend"),
        env!("CARGO_BIN_EXE_example-custom-store"),
        env!("CARGO_BIN_EXE_example-facade"),
        env!("CARGO_BIN_EXE_example-one-backend"),
    ] {
        let output = Command::new(program).output().expect("a program");
        assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    }
}
