//! `cargo xtask ci`: the checks that are not part of `cargo xtask test`.

mod arrows;
mod package;
mod tidy;
mod tree;

use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::Result;
use clap::Args;

use crate::bench::WORKSPACE;
use crate::cargo::{cargo, output, profiles, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Only checks whose names contain one of these
    names: Vec<String>,
}

const FMT: &[&str] = &["fmt", "--all", "--check"];
const FMT_BENCHES: &[&str] = &["fmt", "--manifest-path", WORKSPACE, "--check"];
const CLIPPY: &[&str] = &[
    "clippy",
    "-q",
    "--workspace",
    "--all-targets",
    "--all-features",
    "--no-deps",
    "--",
    "-D",
    "warnings",
];
// Libraries alone: the pages of the command would stand among those of the facade, which has its name.
const DOC: &[&str] = &["doc", "--workspace", "--lib", "--no-deps", "--all-features"];

pub(crate) fn run(options: &Options) -> ExitCode {
    let run = |arguments: &[&str]| output(&mut cargo(arguments)).map(drop);
    let mut report = Report { wanted: options.names.clone(), passed: 0, failed: Vec::new() };
    // The quick checks come first.
    report.check("fmt", || run(FMT));
    report.check("fmt of the benches", || run(FMT_BENCHES));
    report.check("tidy", tidy::check);
    report.check("arrows", arrows::check);
    report.check("tree", tree::check);
    report.check("clippy", || run(CLIPPY));
    report.check("clippy of the benches", || clippy_of(WORKSPACE));
    report
        .check("test of the benches", || test_of(WORKSPACE, &["--bin", "cost", "--test", "main"]));
    report.check("doc", || output(cargo(DOC).env("RUSTDOCFLAGS", "-D warnings")).map(drop));
    report.check("package", package::check);

    println!("\nchecks: {} passed, {} failed", report.passed, report.failed.len());
    if report.failed.is_empty() {
        return ExitCode::SUCCESS;
    }
    println!("failed: {}", report.failed.join(", "));
    ExitCode::FAILURE
}

fn clippy_of(workspace: &str) -> Result<()> {
    let clippy = ["clippy", "-q", "--no-deps", "--all-targets"];
    output(of(workspace, &clippy)?.args(["--", "-D", "warnings"])).map(drop)
}

fn test_of(workspace: &str, programs: &[&str]) -> Result<()> {
    output(of(workspace, &["test", "-q"])?.args(programs)).map(drop)
}

/// A command in another workspace: with the same target folder and profiles, so that dependencies of all workspaces are
/// built once.
fn of(workspace: &str, arguments: &[&str]) -> Result<Command> {
    let mut command = cargo(arguments);
    command.args(["--manifest-path", workspace, "--config"]).arg(profiles()?);
    command.env("CARGO_TARGET_DIR", target());
    Ok(command)
}

/// Prints one line for each check, and its failure below it.
struct Report {
    wanted: Vec<String>,
    passed: u32,
    failed: Vec<String>,
}

impl Report {
    fn check(&mut self, name: &str, check: impl FnOnce() -> Result<()>) {
        if !self.wanted.is_empty() && !self.wanted.iter().any(|wanted| name.contains(wanted)) {
            return;
        }
        let started = Instant::now();
        let result = check();
        let seconds = started.elapsed().as_secs_f64();
        match result {
            Ok(()) => {
                println!("ok    {seconds:6.1} s  {name}");
                self.passed += 1;
            }
            Err(error) => {
                println!("FAIL  {seconds:6.1} s  {name}\n{error:#}");
                self.failed.push(name.to_owned());
            }
        }
    }
}
