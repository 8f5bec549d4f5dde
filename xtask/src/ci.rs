//! `cargo xtask ci`: all checks that are not part of `cargo xtask test`.

mod alerts;
mod arrows;
mod benches;
mod clippy;
mod deny;
mod doc;
mod figures;
mod oldest_rust;
pub(crate) mod package;
mod tidy;
mod tree;
mod workflows;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;

use crate::cargo::{cargo, output};
use crate::{api, fresh};

#[derive(Args)]
pub(crate) struct Options {
    /// Only checks whose names contain one of these
    names: Vec<String>,
    /// Also checks each published package with fewer features, which builds some dependencies once more
    #[arg(long)]
    full: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let started = Instant::now();
    let mut report = Report { wanted: options.names.clone(), ..Report::default() };

    // The quick checks come first.
    report.check("fmt", || output(&mut cargo(["fmt", "--all", "--check"])).map(drop));
    report.check("tidy", tidy::check);
    report.check("arrows", arrows::check);
    report.check("workflows", workflows::check);
    report.check("figures", figures::check);
    report.check("alerts", alerts::check);
    for rule in tree::RULES {
        report.check(&format!("tree {}", rule.name()), || rule.check());
    }
    report.check("oldest rust", oldest_rust::check);
    report.check("deny", deny::check);
    for run in clippy::runs(options.full)? {
        report.check(&run.name(), || run.check());
    }
    report.check("benches", benches::check);
    report.check("doc", doc::check);
    report.check("api", api::check);
    report.check("package", package::check);
    if options.full {
        report.check("test without features", without_features);
    }
    report.check("fresh projects", fresh::check_small);

    let seconds = started.elapsed().as_secs_f64();
    println!(
        "\nchecks: {} passed, {} failed in {seconds:.0} s",
        report.passed,
        report.failed.len()
    );
    if report.failed.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    println!("failed: {}", report.failed.join(", "));
    Ok(ExitCode::FAILURE)
}

/// Prints one line for each check, and its failure below it.
#[derive(Default)]
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

/// A hint for a missing feature: `cargo xtask test` has all features.
fn without_features() -> Result<()> {
    let mut command = cargo(["test", "--quiet", "-p", "syncguard", "--test", "connect"]);
    command.args(["--no-default-features", "--features", "postgres,redis"]);
    output(&mut command).map(drop)
}
