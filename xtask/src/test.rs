//! `cargo xtask test`

mod build;
mod lanes;
mod later;
mod program;
mod progress;
mod queue;
mod runner;
mod totals;

use std::process::ExitCode;
use std::time::Instant;

use anyhow::Result;
use clap::Args;

use self::program::Program;
use self::runner::{Ended, Runner};

#[derive(Args)]
pub(crate) struct Options {
    /// Runs everything: more rounds, larger models, longer fleets, and the tests that the quick run leaves out
    #[arg(long)]
    full: bool,
    /// Lists the tests that only `--full` runs, each with the reason
    #[arg(long)]
    later: bool,
    /// Builds with optimisations
    #[arg(long)]
    release: bool,
    /// Only the programs of this package, without examples and doc tests
    #[arg(long, short)]
    package: Vec<String>,
    /// Only tests whose names contain one of these, without examples and doc tests
    names: Vec<String>,
}

impl Options {
    fn is_partial(&self) -> bool {
        !self.names.is_empty() || !self.package.is_empty()
    }
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.later {
        print!("{}", later::list());
        return Ok(ExitCode::SUCCESS);
    }
    let started = Instant::now();
    let built = build::build(options)?;
    let building = started.elapsed();
    println!("built in {:.0} s", building.as_secs_f64());

    let programs = Program::all(built, options)?;
    let started = Instant::now();
    let ended = Runner::new(options.full).run(programs)?;
    let testing = started.elapsed();
    report(&ended);
    let passed: u64 = ended.iter().map(|ended| ended.totals.passed).sum();
    let failed: u64 = ended.iter().map(|ended| ended.totals.failed).sum();
    println!(
        "ran {} programs in {:.0} s, after {:.0} s of building",
        ended.len(),
        testing.as_secs_f64(),
        building.as_secs_f64()
    );
    // The totals come last.
    println!("tests: {passed} passed, {failed} failed");
    Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// The slowest programs first, then the failures.
fn report(ended: &[Ended]) {
    const SHOWN: usize = 20;
    let mut sorted: Vec<_> = ended.iter().collect();
    sorted.sort_by_key(|ended| std::cmp::Reverse(ended.took));
    println!("\nThe slowest:");
    for ended in sorted.iter().take(SHOWN) {
        println!("{:8.1} s  {}", ended.took.as_secs_f64(), ended.name);
    }
    let failed: Vec<_> = ended.iter().filter(|ended| ended.totals.failed > 0).collect();
    if !failed.is_empty() {
        println!("\nFailed:");
        for ended in failed {
            println!("  {}: {}", ended.name, ended.failures.join(", "));
        }
    }
    println!();
}
