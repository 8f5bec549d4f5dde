//! `cargo xtask soak`

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::{Args, ValueEnum};

use crate::cargo::{cargo, root, run as run_command, target};
use crate::fuzz;

#[derive(Args)]
pub(crate) struct Options {
    /// How long each store is used, such as `30s`, `5min` or `1h`: an hour if it is not given. The simulation begins no
    /// new run after it
    #[arg(long = "for")]
    lasts: Option<String>,
    /// The store
    #[arg(long, value_enum, default_value_t = Store::All)]
    store: Store,
    /// The seed of the faults and the work; a random one is printed
    #[arg(long)]
    seed: Option<u64>,
    /// The number of operations after which the simulation ends: a million if neither this nor the time is given
    #[arg(long)]
    operations: Option<u64>,
    /// The folder for the reports, as JSON; the guide's reports are in `tests/soak/reports`
    #[arg(long)]
    reports: Option<PathBuf>,
    /// Further arguments of the program, such as `--processes 16`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Store {
    /// One server
    Redis,
    /// Three masters and three replicas
    RedisCluster,
    /// One server
    Postgres,
    /// A server behind a pooler
    Pgbouncer,
    /// The emulator
    Firestore,
    /// A file
    Sqlite,
    /// No server, and no real time: a simulated network, and each store in turn
    Simulation,
    /// The same with the memory backend, which lives in one process and has no server to break
    Memory,
    /// No store: orders of events in guards and waiter queues, 50 times as many as `cargo xtask test --full`
    Schedules,
    /// The protocols as models, and every order of events
    Models,
    /// The fuzz targets, each for a minute
    Fuzz,
    /// All of these, one after the other
    All,
}

const SERVERS: [Store; 6] = [
    Store::Redis,
    Store::RedisCluster,
    Store::Postgres,
    Store::Pgbouncer,
    Store::Firestore,
    Store::Sqlite,
];

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    no_limit_in_vain(options)?;
    if matches!(options.store, Store::Fuzz | Store::All) {
        fuzz::run(&fuzz::Options::default())?;
    }
    if matches!(options.store, Store::Schedules | Store::All) {
        run_command(&mut schedules())?;
    }
    if matches!(options.store, Store::Simulation | Store::Memory | Store::All) {
        run_command(&mut program("syncguard-simulation", "simulate", &simulation(options))?)?;
    }
    if matches!(options.store, Store::Models | Store::All) {
        run_command(&mut program("syncguard-model", "syncguard-model", &models(options))?)?;
    }
    let stores: &[Store] = match &options.store {
        Store::All => &SERVERS,
        Store::Simulation | Store::Memory | Store::Schedules | Store::Models | Store::Fuzz => {
            return Ok(ExitCode::SUCCESS);
        }
        one => std::slice::from_ref(one),
    };
    let lasts = options.lasts.clone().unwrap_or_else(|| "1h".to_owned());
    let mut arguments = vec!["run".to_owned(), "--for".to_owned(), lasts];
    for store in stores {
        let name = store.to_possible_value().context("a store")?;
        arguments.extend(["--store".to_owned(), name.get_name().to_owned()]);
    }
    arguments.extend(seed(options));
    if let Some(folder) = &options.reports {
        arguments.extend(["--reports".to_owned(), folder.display().to_string()]);
    }
    arguments.extend(options.arguments.clone());
    // Replaces this process, so that the program gets Ctrl-C and ends with a report.
    let error = program("syncguard-soak", "soak", &arguments)?.exec();
    Err(error).context("cannot run the soak program")
}

/// Refuses a limit that the store would ignore.
fn no_limit_in_vain(options: &Options) -> Result<()> {
    let store = options.store.to_possible_value().context("a store")?;
    let simulated = matches!(options.store, Store::Simulation | Store::Memory | Store::All);
    let timed = simulated || SERVERS.contains(&options.store);
    ensure!(
        timed || options.lasts.is_none(),
        "--for has no effect with --store {}, which ends when all has been tried",
        store.get_name()
    );
    ensure!(
        simulated || options.operations.is_none(),
        "--operations has no effect with --store {}: only the simulation counts them",
        store.get_name()
    );
    Ok(())
}

/// Some three million schedules.
fn schedules() -> Command {
    let mut command = cargo(["test", "--release", "-p", "syncguard-core", "--all-features"]);
    command.args(["--lib", "shuttle_tests"]).env("SYNCGUARD_SHUTTLE_TIMES", "400");
    command
}

fn seed(options: &Options) -> Vec<String> {
    let seed = options.seed.map(|seed| ["--seed".to_owned(), seed.to_string()]);
    seed.into_iter().flatten().collect()
}

fn simulation(options: &Options) -> Vec<String> {
    let most = if options.lasts.is_some() { u64::MAX } else { 1_000_000 };
    let operations = options.operations.unwrap_or(most);
    let mut arguments = vec!["--operations".to_owned(), operations.to_string()];
    if let Some(lasts) = &options.lasts {
        arguments.extend(["--for".to_owned(), lasts.clone()]);
    }
    if options.store == Store::Memory {
        arguments.extend(["--store".to_owned(), "memory".to_owned()]);
    }
    arguments.extend(seed(options));
    if let Some(folder) = &options.reports {
        let report = folder.join("simulation.json");
        arguments.extend(["--report".to_owned(), report.display().to_string()]);
    }
    arguments
}

fn models(options: &Options) -> Vec<String> {
    let mut arguments = vec!["all".to_owned()];
    if let Some(folder) = &options.reports {
        let report = folder.join("models.json");
        arguments.extend(["--report".to_owned(), report.display().to_string()]);
    }
    arguments
}

/// A program of the workspace, built with optimisations.
fn program(package: &str, name: &str, arguments: &[String]) -> Result<Command> {
    run_command(&mut cargo(["build", "--release", "-p", package, "--bin", name]))?;
    let mut command = Command::new(target().join("release").join(name));
    command.current_dir(root()).args(arguments);
    Ok(command)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Soak {
        #[command(flatten)]
        options: Options,
    }

    fn options(words: &str) -> Options {
        Soak::parse_from(["soak"].into_iter().chain(words.split(' '))).options
    }

    #[test]
    fn the_simulation_hears_of_the_time() {
        let told = |words: &str| simulation(&options(words)).join(" ");
        assert_eq!(told("--store simulation"), "--operations 1000000");
        assert_eq!(
            told("--store memory --for 60s"),
            format!("--operations {} --for 60s --store memory", u64::MAX)
        );
        assert_eq!(
            told("--store simulation --for 2min --operations 5"),
            "--operations 5 --for 2min"
        );
    }

    #[test]
    fn a_limit_that_nothing_keeps_to_is_refused() {
        let refused = |words: &str| {
            no_limit_in_vain(&options(words))
                .map_or_else(|error| error.to_string(), |()| String::new())
        };
        for store in ["redis", "sqlite", "simulation", "memory", "all"] {
            assert_eq!(refused(&format!("--store {store} --for 1h")), "");
        }
        for store in ["schedules", "models", "fuzz"] {
            assert_eq!(refused(&format!("--store {store}")), "");
            assert!(
                refused(&format!("--store {store} --for 1h")).starts_with("--for has no effect")
            );
        }
        assert_eq!(refused("--store all --operations 7"), "");
        assert!(refused("--store redis --operations 7").contains("--store redis"));
    }
}
