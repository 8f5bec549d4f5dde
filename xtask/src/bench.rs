//! `cargo xtask bench NAME`

use std::process::{Command, ExitCode};

use anyhow::Result;
use clap::{Args, ValueEnum};

use crate::cargo::{cargo, run as run_command};

#[derive(Args)]
pub(crate) struct Options {
    /// The part of the project to measure
    name: Name,
    /// Arguments for the benchmarks, such as part of a benchmark's name
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// The memory of a held guard and of a waiter
    Core,
    /// The cost of waiting for a permit
    Recipes,
    /// The Redis backend beside a raw driver
    Redis,
    /// The PostgreSQL backend beside a transaction that awaits every statement
    Postgres,
    /// The Firestore backend beside transactions and the bare calls
    Firestore,
    /// The etcd backend beside keys with leases, and the calls and writes of each operation
    Etcd,
    /// Many waiters for one key, in one process and in several, on each store
    Waiting,
    /// The SQLite backend beside the same SQL on a bare connection
    Sqlite,
    /// What an operation costs the store and the client, beside an earlier commit
    Cost,
}

impl Name {
    fn commands(self) -> Vec<Command> {
        match self {
            Self::Core => vec![cargo([
                "test",
                "--release",
                "-p",
                "syncguard-memory",
                "--test",
                "memory_per_guard",
                "--",
                "--nocapture",
            ])],
            Self::Recipes => vec![program("recipes")],
            Self::Redis => vec![program("redis")],
            Self::Postgres => vec![program("postgres")],
            Self::Firestore => vec![program("firestore")],
            Self::Etcd => vec![program("etcd")],
            Self::Waiting => vec![program("waiting")],
            Self::Sqlite => vec![program("sqlite")],
            Self::Cost => vec![built("probe"), program("cost")],
        }
    }
}

/// These benchmarks are a workspace of their own, so that the libraries they compare with are not in the library's
/// tree.
pub(crate) const WORKSPACE: &str = "tests/bench/Cargo.toml";

fn program(name: &str) -> Command {
    cargo(["run", "--release", "--manifest-path", WORKSPACE, "--bin", name, "--"])
}

fn built(name: &str) -> Command {
    cargo(["build", "--release", "--manifest-path", WORKSPACE, "--bin", name])
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let mut commands = options.name.commands();
    // The last command measures.
    if let Some(last) = commands.last_mut() {
        last.args(&options.arguments);
    }
    for mut command in commands {
        run_command(&mut command)?;
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use syncguard_test_services::store::Store;

    use super::*;

    #[test]
    fn each_store_has_a_benchmark() {
        // A cycle on a bucket is its requests, which its tests count.
        for store in Store::ALL.into_iter().filter(|store| *store != Store::ObjectStore) {
            let name = if store == Store::Memory { "core" } else { store.name() };
            assert!(Name::from_str(name, false).is_ok(), "{store}");
        }
    }
}
