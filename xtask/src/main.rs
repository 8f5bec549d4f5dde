//! The project's tasks, as `cargo xtask COMMAND`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod bench;
mod cargo;
mod ci;
mod servers;
mod services;
mod soak;
mod test;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(name = "cargo xtask", about = "The project's tasks")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs all tests, doc tests and examples, with the servers they need
    Test(test::Options),
    /// Checks formats, lints, docs, dependencies, packages and house rules
    Ci(ci::Options),
    /// Puts releases of servers into the target folder, for tests on them
    Fetch(servers::Options),
    /// Starts servers to try the examples on, and keeps them until Ctrl-C
    Services,
    /// Runs the benchmarks of a part of the project
    Bench(bench::Options),
    /// Runs fleets under faults, on real stores and on simulated ones
    Soak(soak::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Ci(options) => Ok(ci::run(&options)),
        Command::Fetch(options) => servers::run(&options),
        Command::Services => services::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Soak(options) => soak::run(&options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
