//! `cargo xtask test`

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, ensure};
use clap::Args;
use syncguard_test_services::catalogue::Release;
use syncguard_test_services::install;

use crate::cargo::{cargo, output, shown};
use crate::servers;

#[derive(Args)]
pub(crate) struct Options {
    /// Runs everything: more rounds, longer fleets, the tests in modules named `long`, and on Debian 12 those
    /// of `--servers all`
    #[arg(long)]
    full: bool,
    /// Builds with optimisations
    #[arg(long)]
    release: bool,
    /// Tests what users get: default features, and nothing that only tests turn on
    #[arg(long, conflicts_with_all = ["package", "servers"])]
    shipped: bool,
    /// Only the tests of this package, without doc tests
    #[arg(long, short)]
    package: Vec<String>,
    /// Only the tests of a server, on this release of it, such as `redis=8.2.3`, which is fetched. `redis` stands for each
    /// release of it, and `all` for all servers
    #[arg(long, value_name = "NAME=VERSION")]
    servers: Vec<String>,
    /// Only tests whose names contain one of these, without doc tests
    names: Vec<String>,
}

/// What users get, with all packages of tests that can do without the seams of backends.
const SHIPPED: [&str; 7] = [
    "--workspace",
    "--exclude",
    "syncguard-fuzz",
    "--exclude",
    "syncguard-simulation",
    "--exclude",
    "syncguard-soak",
];

/// The feature of backends that only tests turn on.
const SEAMS: &str = "test-util";

/// Most tests wait for a lease to expire, so a machine of two cores has capacity for several at a time. With more, two cores
/// are so busy that answers come late.
const AT_ONCE: &str = "--test-threads=8";

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if !options.servers.is_empty() {
        return Ok(on_servers(options, &options.servers)?.report());
    }
    if options.shipped {
        let tree = ["tree", "--prefix=none", "--format={p} features={f}"];
        let tree = output(cargo(tree).args(SHIPPED))?;
        let seams = with_seams(&tree);
        ensure!(seams.is_empty(), "these have {SEAMS}, which users do not have: {seams:?}");
    }
    let is_partial = options.shipped || !options.names.is_empty() || !options.package.is_empty();
    let mut tests = tests(options, &options.package, &options.names);
    tests.envs(servers::newest()?.map(|folders| (install::SERVERS, folders)));
    if options.full {
        // The core and its tests are published, so they cannot use an unpublished package.
        tests.env("SYNCGUARD_TESTS", "full").env("SYNCGUARD_SHUTTLE_TIMES", "8");
    } else {
        tests.args(["--skip", "long::"]);
    }
    let mut totals = Totals::default();
    if is_partial {
        totals.add(&mut tests)?;
    } else {
        let mut doc = cargo(["test", "--doc", "--workspace", "--all-features", "--no-fail-fast"]);
        doc.args(options.release.then_some("--release"));
        for whole in [&mut tests, &mut doc] {
            // The data for incremental builds would cost a seventh of the build.
            totals.add(whole.env("CARGO_INCREMENTAL", "0"))?;
        }
    }
    if options.full && !is_partial {
        if servers::can_fetch_all() {
            let of_servers = on_servers(options, &["all".to_owned()])?;
            totals.passed += of_servers.passed;
            totals.failed += of_servers.failed;
        } else {
            println!("`cargo xtask test --servers all` needs Debian 12, so it is left out here");
        }
    }
    Ok(totals.report())
}

/// The tests of these packages, or of all, whose names contain one of these.
fn tests(options: &Options, packages: &[String], names: &[String]) -> Command {
    // `--tests` leaves out the examples, which `cargo xtask ci` compiles and `tests/tests/examples` runs.
    let mut tests = cargo(["test", "--no-fail-fast", "--tests"]);
    if options.shipped {
        tests.args(SHIPPED);
    } else {
        tests.arg("--all-features").args(packages.is_empty().then_some("--workspace"));
    }
    tests.args(packages.iter().flat_map(|package| ["--package", package]));
    tests.args(options.release.then_some("--release")).arg("--").arg(AT_ONCE).args(names);
    tests
}

/// One release after the other, the others as the system has them.
fn on_servers(options: &Options, names: &[String]) -> Result<Totals> {
    let releases = servers::named(names)?;
    let (mut all, mut lines) = (Totals::default(), Vec::new());
    for release in releases {
        let mut totals = Totals::default();
        let done = on_server(options, release, &mut totals);
        if let Err(error) = &done {
            println!("{error:#}");
            totals.failed += 1;
        }
        lines.push(format!("{}: {} passed, {} failed", release.id(), totals.passed, totals.failed));
        all.passed += totals.passed;
        all.failed += totals.failed;
    }
    println!("\n{}", lines.join("\n"));
    Ok(all)
}

fn on_server(options: &Options, release: &Release, totals: &mut Totals) -> Result<()> {
    let packages = if options.package.is_empty() {
        ["syncguard-tests", "syncguard-cli"].map(str::to_owned).to_vec()
    } else {
        options.package.clone()
    };
    let names = if options.names.is_empty() {
        servers::tests_of(release).iter().map(|name| (*name).to_owned()).collect()
    } else {
        options.names.clone()
    };
    let mut tests = tests(options, &packages, &names);
    tests.args(release.lacks.iter().flat_map(|name| ["--skip", name]));
    if let Some(folder) = servers::fetch(release)? {
        tests.env(install::SERVERS, folder);
    }
    totals.add(&mut tests)?;
    ensure!(totals.passed + totals.failed > 0, "no test has one of these names: {names:?}");
    Ok(())
}

/// The packages of ours that a tree builds with their seams. Its lines are "name version (path) features=a,b".
fn with_seams(tree: &str) -> BTreeSet<&str> {
    let has_seams = |line: &&str| {
        let features = line.split_once("features=").map_or("", |(_, features)| features);
        line.starts_with("syncguard") && features.split([',', ' ']).any(|name| name == SEAMS)
    };
    tree.lines().filter(has_seams).filter_map(|line| line.split(' ').next()).collect()
}

#[derive(Debug, Default, PartialEq, Eq)]
struct Totals {
    passed: u64,
    failed: u64,
}

impl Totals {
    /// Prints the last line.
    fn report(&self) -> ExitCode {
        println!("tests: {} passed, {} failed", self.passed, self.failed);
        if self.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
    }

    /// Runs a command and adds what libtest counts. A command that fails without a failed test counts as one.
    fn add(&mut self, command: &mut Command) -> Result<()> {
        let name = shown(command);
        println!("\n{name}");
        let mut child = command.stdout(Stdio::piped()).spawn().with_context(|| name.clone())?;
        let failed = self.failed;
        for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
            let line = line?;
            println!("{line}");
            self.read(&line);
        }
        if !child.wait()?.success() && self.failed == failed {
            println!("{name} failed");
            self.failed += 1;
        }
        Ok(())
    }

    /// `test result: ok. 3 passed; 0 failed; 0 ignored; 0 measured; 1 filtered out; finished in 0.00s`
    fn read(&mut self, line: &str) {
        let Some(counts) = line.strip_prefix("test result: ") else { return };
        let count = |of: &str| {
            let (before, _) = counts.split_once(of)?;
            before.rsplit(' ').next()?.parse::<u64>().ok()
        };
        self.passed += count(" passed").unwrap_or(0);
        self.failed += count(" failed").unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_packages_of_ours_with_seams() {
        let tree = "syncguard-redis v0.1.0 (/p) features=default,test-util\n\
                    syncguard-sqlite v0.1.0 (/p) features=test-util (*)\n\
                    syncguard-etcd v0.1.0 (/test-util) features=default,tls\n\
                    syncguard-core v0.1.0 (/p) features=\n\
                    tokio v1.52.3 features=rt,test-util,time\n";
        let named: Vec<_> = with_seams(tree).into_iter().collect();
        assert_eq!(named, ["syncguard-redis", "syncguard-sqlite"]);
    }

    #[test]
    fn adds_what_libtest_says_and_nothing_else() {
        let mut totals = Totals::default();
        for line in [
            "test 5 passed; 5 failed ... ok",
            "test result: ok. 2 passed; 0 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.00s",
            "test result: FAILED. 30 passed; 4 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1s",
            "all doctests ran in 0.18s; merged doctests compilation took 0.17s",
        ] {
            totals.read(line);
        }
        assert_eq!(totals, Totals { passed: 32, failed: 4 });
    }
}
