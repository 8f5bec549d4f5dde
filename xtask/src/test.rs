//! `cargo xtask test`

mod programs;
mod totals;

use std::io::{BufRead as _, BufReader, Write as _, pipe, stdout};
use std::process::{Command, ExitCode};
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::cargo::{cargo, run as run_command, shown};
use crate::metadata;
use programs::Programs;
use totals::Totals;

#[derive(Args)]
pub(crate) struct Options {
    /// Builds with optimisations
    #[arg(long)]
    release: bool,
    /// What else `cargo test` is to be told, such as part of a test's name; examples are not run
    /// then
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    filter: Vec<String>,
}

/// Examples that want a server of the user's, or run until they are stopped: tests of their own run
/// them.
const EXAMPLES_WITH_A_SERVER: &[&str] = &[
    "fenced_write_firestore",
    "fenced_write_postgres",
    "fenced_write_redis",
    "leader",
    "migration_gate",
    "nightly_job",
];

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let started = Instant::now();
    let mut session = Session {
        options,
        started,
        totals: Totals::default(),
        programs: Programs::default(),
        ran: Vec::new(),
    };

    session.test()?;
    if options.filter.is_empty() {
        for (package, example) in runnable_examples()? {
            session.example(&package, &example);
        }
    }

    let Session { totals, programs, ran, .. } = session;
    print!("\n{programs}");
    println!("ran {} in {:.0} s", ran.join(", "), started.elapsed().as_secs_f64());
    println!("tests: {} passed, {} failed", totals.passed, totals.failed);
    // Not an error of ours: what failed has been said above, and the totals stay the last line.
    Ok(if totals.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Session<'a> {
    options: &'a Options,
    started: Instant,
    totals: Totals,
    programs: Programs,
    ran: Vec<String>,
}

impl Session<'_> {
    /// Tests and doc tests, while examples are built. Without a choice of targets, as `--bins`
    /// would take in the fuzz targets, which run for ever, and `--all-targets` the benchmarks.
    fn test(&mut self) -> Result<()> {
        let mut command = cargo(["test", "--workspace", "--all-features", "--no-fail-fast"]);
        command.args(self.profile()).args(&self.options.filter);
        self.stream(command)?;
        self.ran.push(format!("{} tests and doc tests", self.totals.passed + self.totals.failed));
        Ok(())
    }

    fn example(&mut self, package: &str, name: &str) {
        let mut command = cargo(["run", "--quiet", "-p", package, "--all-features"]);
        command.args(["--example", name]).args(self.profile());
        println!("\n{}", shown(&command));
        let before = Instant::now();
        if let Err(error) = run_command(&mut command) {
            println!("{error:#}");
            self.totals.failed += 1;
        }
        self.programs.add(format!("example {name}"), before.elapsed());
        self.ran.push(format!("example {name}"));
    }

    /// Passes the output on while it adds up the results in it.
    fn stream(&mut self, mut command: Command) -> Result<()> {
        let shown = shown(&command);
        println!("\n{shown}");
        // One pipe for both, as cargo says on one of them which program runs, and that on the other
        // how it went.
        let (output, both) = pipe()?;
        command.stdout(both.try_clone()?).stderr(both);
        let mut child = command.spawn().with_context(|| format!("cannot run {shown}"))?;
        // It has our ends of the pipe, and the output ends with the last of them.
        drop(command);
        for line in BufReader::new(output).split(b'\n') {
            let line = line?;
            let text = String::from_utf8_lossy(&line);
            self.totals.add_line(&text);
            self.programs.add_line(&text, self.started.elapsed());
            stdout().write_all(&line)?;
            println!();
        }
        self.programs.end(self.started.elapsed());
        // A build that fails, or a test program that crashes, has no result line.
        if !child.wait()?.success() {
            self.totals.failed = self.totals.failed.max(1);
        }
        Ok(())
    }

    fn profile(&self) -> Option<&'static str> {
        self.options.release.then_some("--release")
    }
}

/// Each with the package it belongs to.
fn runnable_examples() -> Result<Vec<(String, String)>> {
    let mut runnable = Vec::new();
    for package in metadata::packages()? {
        let examples = package.examples.into_iter();
        let examples = examples.filter(|name| !EXAMPLES_WITH_A_SERVER.contains(&name.as_str()));
        runnable.extend(examples.map(|example| (package.name.clone(), example)));
    }
    Ok(runnable)
}
