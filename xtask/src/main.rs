//! The project's tasks, as `cargo xtask COMMAND`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod api;
mod bench;
mod cargo;
mod ci;
mod fresh;
mod fuzz;
mod metadata;
mod mutants;
mod release_check;
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
    /// Checks formats, lints, docs, dependencies and house rules
    Ci(ci::Options),
    /// Compares the public items of each crate with its list
    Api(api::Options),
    /// Starts servers to try the examples on, and keeps them until Ctrl-C
    Services,
    /// Runs the benchmarks of a part of the project
    Bench(bench::Options),
    /// Builds a new user's project for each crate and feature, outside the workspace, and runs it
    Fresh(fresh::Options),
    /// Runs each fuzz target for a while
    Fuzz(fuzz::Options),
    /// Runs fleets under faults, on real stores and on a simulated one
    Soak(soak::Options),
    /// Changes the code in small ways, one at a time, and reports changes that no test notices
    Mutants(mutants::Options),
    /// Reports what a release still lacks
    ReleaseCheck(release_check::Options),
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Test(options) => test::run(&options),
        Command::Ci(options) => ci::run(&options),
        Command::Api(options) => api::run(&options),
        Command::Services => services::run(),
        Command::Bench(options) => bench::run(&options),
        Command::Fresh(options) => fresh::run(&options),
        Command::Fuzz(options) => fuzz::run(&options),
        Command::Soak(options) => soak::run(&options),
        Command::Mutants(options) => mutants::run(&options),
        Command::ReleaseCheck(options) => release_check::run(&options),
    };
    match done {
        Ok(code) => code,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
