//! The programs to run, and their commands.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Result, ensure};
use syncguard_test_services::install;

use super::build::{Built, Kind};
use super::lanes::{self, Lane};
use super::{Options, later};
use crate::cargo::cargo;

/// Examples that need a server of the user, or run until they are stopped. They have tests of their own.
const EXAMPLES_WITH_A_SERVER: &[&str] = &[
    "fenced_write_firestore",
    "fenced_write_postgres",
    "fenced_write_redis",
    "leader",
    "migration_gate",
    "nightly_job",
];

/// One process that runs tests, or an example.
pub(super) struct Program {
    /// The package and the target.
    pub(super) name: String,
    pub(super) lane: Lane,
    /// An example has no tests to count; it passes as a whole.
    pub(super) is_example: bool,
    pub(super) command: Command,
}

impl Program {
    /// All programs, in the order in which each lane takes them.
    pub(super) fn all(built: Vec<Built>, options: &Options) -> Result<Vec<Self>> {
        let names: Vec<String> = built.iter().map(name_of).collect();
        if !options.is_partial() {
            lanes::check(&names)?;
            let paths =
                names.iter().map(String::as_str).zip(built.iter().map(|it| it.path.as_path()));
            later::check(&paths.collect::<Vec<_>>())?;
        }
        let mut programs = Vec::new();
        for (built, name) in built.into_iter().zip(names) {
            if built.kind != Kind::Example {
                programs.push(Self::tests(built, name, options));
            } else if !options.is_partial()
                && !EXAMPLES_WITH_A_SERVER.contains(&built.name.as_str())
            {
                programs.push(Self::example(built, name));
            }
        }
        ensure!(!programs.is_empty(), "cargo has built no tests");
        if !options.is_partial() {
            programs.push(Self::doc_tests(options.release));
        }
        // Long programs come first, so that the run does not end with one.
        programs.sort_by_key(|program| lanes::rank(&program.name).unwrap_or(usize::MAX));
        Ok(programs)
    }

    fn tests(built: Built, name: String, options: &Options) -> Self {
        let lane = lanes::of(&name);
        let mut command = command(built.path, built.folder);
        command.args(&options.names);
        command.arg(format!("--test-threads={}", lane.threads()));
        if options.full {
            // The core and its tests are published, so they cannot use an unpublished package.
            command.env("SYNCGUARD_TESTS", "full").env("SYNCGUARD_SHUTTLE_TIMES", "8");
        } else {
            for skipped in later::skipped(&name) {
                command.args(["--skip", skipped]);
            }
        }
        Self { name, lane, is_example: false, command }
    }

    fn example(built: Built, name: String) -> Self {
        let command = command(built.path, built.folder);
        Self { lane: lanes::of(&name), name, is_example: true, command }
    }

    fn doc_tests(release: bool) -> Self {
        let mut command =
            cargo(["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]);
        command.args(release.then_some("--release"));
        let name = lanes::DOC_TESTS.to_owned();
        Self { lane: lanes::of(&name), name, is_example: false, command }
    }
}

/// The command that cargo would run.
fn command(path: PathBuf, folder: PathBuf) -> Command {
    let mut command = Command::new(path);
    command.env("CARGO_MANIFEST_DIR", &folder).env(install::INSTALL, "1").current_dir(folder);
    command
}

/// `package target`, or `package unit tests`.
fn name_of(built: &Built) -> String {
    let package = built.package.strip_prefix("syncguard-").unwrap_or(&built.package);
    match built.kind {
        Kind::Test => format!("{package} {}", built.name),
        Kind::Unit => format!("{package} {} (unit tests)", built.name),
        Kind::Example => format!("{package} {} (example)", built.name),
    }
}
