//! `cargo xtask fresh`: the first steps of a new user. Each way to depend on the library gets a project of its own
//! outside the workspace, with the crates in their packed form. The project builds without warnings and takes its
//! first lock.

mod projects;

use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result, bail, ensure};
use clap::Args;
use syncguard_test_services::firestore::FirestoreEmulator;
use syncguard_test_services::postgres::PostgresServer;
use syncguard_test_services::redis::RedisServer;

use crate::cargo::{output, root, target};
use crate::ci::package::{patches, unpacked};
use crate::metadata;
use projects::{PROJECTS, Project, Store};

#[derive(Args)]
pub(crate) struct Options {
    /// Only projects whose names contain one of these
    names: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let wanted = |project: &&Project| {
        options.names.is_empty() || options.names.iter().any(|name| project.name.contains(name))
    };
    let projects: Vec<&Project> = PROJECTS.iter().filter(wanted).collect();
    ensure!(!projects.is_empty(), "no project has such a name");
    let (started, count) = (Instant::now(), projects.len());
    let mut stores = Stores::default();
    let mut failed = 0;
    for project in projects {
        failed += u32::from(!report(project, &mut stores));
    }
    println!(
        "\nfresh projects: {count}, {failed} failed in {:.0} s",
        started.elapsed().as_secs_f64()
    );
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The projects that need neither a driver nor a server, for `cargo xtask ci`.
pub(crate) fn check_small() -> Result<()> {
    let mut stores = Stores::default();
    for project in PROJECTS.iter().filter(|project| project.is_small()) {
        try_out(project, &mut stores).with_context(|| format!("fresh {}", project.name))?;
    }
    Ok(())
}

fn report(project: &Project, stores: &mut Stores) -> bool {
    let started = Instant::now();
    let result = try_out(project, stores);
    let seconds = started.elapsed().as_secs_f64();
    match &result {
        Ok(()) => println!("ok    {seconds:6.1} s  {}", project.name),
        Err(error) => println!("FAIL  {seconds:6.1} s  {}\n{error:#}", project.name),
    }
    result.is_ok()
}

fn try_out(project: &Project, stores: &mut Stores) -> Result<()> {
    let root = root();
    // Outside of any folder with a workspace.
    let folder = tempfile::Builder::new().prefix("syncguard-fresh-").tempdir()?;
    let package = folder.path();
    fs::create_dir(package.join("src"))?;
    let patches = patches(&metadata::published()?, &unpacked()?);
    fs::write(package.join("Cargo.toml"), project.manifest() + "\n" + &patches)?;
    fs::write(package.join("src/main.rs"), project.source(&root)?)?;
    // The same versions as in all other tests.
    fs::copy(root.join("Cargo.lock"), package.join("Cargo.lock"))?;

    let mut build = cargo_in(package);
    let built = build.arg("build").output().context("cannot run cargo")?;
    let said = String::from_utf8_lossy(&built.stderr);
    let mut warnings = said.lines().filter(|line| line.starts_with("warning:"));
    // The manifest names every crate, but no project needs all of them.
    let is_clean = warnings.all(|line| line.contains("was not used in the crate graph"));
    ensure!(built.status.success() && is_clean, "cargo build:\n{said}");

    let mut run = cargo_in(package);
    run.args(["run", "--quiet", "--", &stores.url(project.store)?])
        .arg(format!("fresh:{}", project.name));
    let said = output(&mut run)?;
    if !said.contains(project.says) {
        bail!("does not say {:?}:\n{said}", project.says);
    }
    Ok(())
}

/// `cargo` in a project, with a target folder that all projects share.
fn cargo_in(package: &Path) -> Command {
    let mut command = Command::new("cargo");
    command.current_dir(package).env("CARGO_TARGET_DIR", target().join("fresh"));
    // A variable of the cargo that runs this program.
    for variable in ["CARGO_MANIFEST_DIR", "RUSTFLAGS", "FIRESTORE_EMULATOR_HOST"] {
        command.env_remove(variable);
    }
    command
}

/// Servers, which start when the first project needs them.
#[derive(Default)]
struct Stores {
    redis: Option<RedisServer>,
    postgres: Option<PostgresServer>,
    firestore: Option<FirestoreEmulator>,
    folder: Option<tempfile::TempDir>,
}

impl Stores {
    fn url(&mut self, store: Store) -> Result<String> {
        Ok(match store {
            Store::Memory => "memory:".to_owned(),
            Store::Redis => get_or_start(&mut self.redis, RedisServer::start)?.url(),
            Store::Postgres => {
                let server = get_or_start(&mut self.postgres, PostgresServer::start)?;
                format!("{}?setup_schema=true", server.url())
            }
            Store::Firestore => {
                let emulator = get_or_start(&mut self.firestore, FirestoreEmulator::start)?;
                format!("firestore://fresh?emulator={}", emulator.host_port())
            }
            Store::Sqlite => {
                let folder = get_or_start(&mut self.folder, || Ok(tempfile::tempdir()?))?;
                format!("sqlite:{}", folder.path().join("locks.db").display())
            }
        })
    }
}

fn get_or_start<T>(server: &mut Option<T>, start: impl FnOnce() -> Result<T>) -> Result<&T> {
    let running = match server.take() {
        Some(running) => running,
        None => start()?,
    };
    Ok(server.insert(running))
}
