//! `cargo xtask soak`

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result};
use clap::Args;

use crate::cargo::{cargo, root, run as run_command, target};

#[derive(Args)]
pub(crate) struct Options {
    /// How long each store is used, such as `30s`, `5min` or `1h`: an hour if it is not given. The simulation begins no
    /// new run after it; schedules end when all have been tried
    #[arg(long = "for")]
    lasts: Option<String>,
    /// A store of the soak, such as `redis` or `pgbouncer`: an unknown name gets the list. Or `simulation`, without servers
    /// and real time, of each store in turn; `memory`, the same of the memory backend; `schedules`, orders of events in
    /// waiter queues, 50 times as many as `cargo xtask test --full`. Without it all of these
    #[arg(long)]
    store: Option<String>,
    /// The seed of the faults and the work; a random one is printed
    #[arg(long)]
    seed: Option<u64>,
    /// The number of operations after which the simulation ends: a million if neither this nor the time is given
    #[arg(long)]
    operations: Option<u64>,
    /// The folder for the reports, as JSON
    #[arg(long)]
    reports: Option<PathBuf>,
    /// Further arguments of the program, such as `--processes 16`
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let store = options.store.as_deref();
    if matches!(store, Some("schedules") | None) {
        run_command(&mut schedules())?;
    }
    if matches!(store, Some("simulation" | "memory") | None) {
        run_command(&mut program("syncguard-simulation", "simulate", &simulation(options))?)?;
    }
    if matches!(store, Some("schedules" | "simulation" | "memory")) {
        return Ok(ExitCode::SUCCESS);
    }
    let lasts = options.lasts.clone().unwrap_or_else(|| "1h".to_owned());
    let mut arguments = vec!["run".to_owned(), "--for".to_owned(), lasts];
    // Without a name the soak takes each of its stores.
    arguments.extend(store.into_iter().flat_map(|store| ["--store".to_owned(), store.to_owned()]));
    arguments.extend(options.seed());
    if let Some(folder) = &options.reports {
        arguments.extend(["--reports".to_owned(), folder.display().to_string()]);
    }
    arguments.extend(options.arguments.clone());
    // Replaces this process, so that the program gets Ctrl-C and ends with a report.
    let error = program("syncguard-soak", "soak", &arguments)?.exec();
    Err(error).context("cannot run the soak program")
}

impl Options {
    fn seed(&self) -> Vec<String> {
        let seed = self.seed.map(|seed| ["--seed".to_owned(), seed.to_string()]);
        seed.into_iter().flatten().collect()
    }

    fn report(&self, file: &str) -> Vec<String> {
        let path = self.reports.as_ref().map(|folder| folder.join(file).display().to_string());
        path.map_or_else(Vec::new, |path| vec!["--report".to_owned(), path])
    }
}

/// 400 000 schedules.
fn schedules() -> Command {
    let mut command = cargo(["test", "--release", "-p", "syncguard-core", "--all-features"]);
    command.args(["--lib", "shuttle_tests"]).env("SYNCGUARD_SHUTTLE_TIMES", "400");
    command
}

fn simulation(options: &Options) -> Vec<String> {
    let most = if options.lasts.is_some() { u64::MAX } else { 1_000_000 };
    let operations = options.operations.unwrap_or(most);
    let mut arguments = vec!["--operations".to_owned(), operations.to_string()];
    if let Some(lasts) = &options.lasts {
        arguments.extend(["--for".to_owned(), lasts.clone()]);
    }
    if options.store.as_deref() == Some("memory") {
        arguments.extend(["--store".to_owned(), "memory".to_owned()]);
    }
    arguments.extend(options.seed());
    arguments.extend(options.report("simulation.json"));
    arguments
}

/// A program of the workspace, built with optimisations.
fn program(package: &str, name: &str, arguments: &[String]) -> Result<Command> {
    run_command(&mut cargo(["build", "--release", "-p", package, "--bin", name]))?;
    let mut command = Command::new(target().join("release").join(name));
    command.current_dir(root()).args(arguments);
    Ok(command)
}
