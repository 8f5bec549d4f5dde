//! Fleets of processes on a real store under faults: see `cargo xtask soak`.

#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]

mod connect;
mod feed;
mod fleet;
mod kind;
mod member;
mod outcomes;
mod recipes;
mod registers;
mod report;
mod run;
mod servers;
mod settle;
mod skew;
mod stalls;
mod store;
mod ways;
mod work;

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Parser, Subcommand};
use syncguard_history::Random;

use self::kind::Kind;
use self::member::Member;

#[derive(Parser)]
#[command(name = "soak", about = "Fleets on real stores under faults, checked while they run")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs a fleet on one store
    Run(Options),
    /// A process of a fleet, described in JSON
    Member {
        /// A `Member`
        description: String,
    },
}

#[derive(clap::Args)]
pub(crate) struct Options {
    /// The store; several are used one after the other, and all without this option
    #[arg(long = "store", default_values_t = Kind::all())]
    stores: Vec<Kind>,
    /// How long each store is used, such as `30s`, `5min` or `1h`; Ctrl-C ends the run earlier, in order
    #[arg(long = "for", default_value = "1h", value_parser = humantime::parse_duration)]
    lasts: Duration,
    /// The seed of the faults and the work
    #[arg(long)]
    seed: Option<u64>,
    /// The number of processes; two more use the recipes
    #[arg(long, default_value_t = 8)]
    processes: usize,
    /// The number of tasks of each process
    #[arg(long, default_value_t = 6)]
    tasks: u64,
    /// The folder for the reports: `STORE.json`
    #[arg(long)]
    reports: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = match Arguments::parse().command {
        Command::Run(options) => run::run(&options),
        Command::Member { description } => member(&description),
    };
    done.unwrap_or_else(|error| {
        eprintln!("error: {error:#}");
        ExitCode::FAILURE
    })
}

fn member(description: &str) -> Result<ExitCode> {
    let member: Member = serde_json::from_str(description).context("no member of a fleet")?;
    member.run()?;
    Ok(ExitCode::SUCCESS)
}

impl Options {
    fn seed(&self) -> u64 {
        self.seed.unwrap_or_else(Random::seed)
    }
}
