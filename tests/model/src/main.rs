//! Checks the models in sizes that take longer than a test may: a chosen size, or the sizes of the guide.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Args, Parser, ValueEnum};
use serde_json::{Value, json};
use syncguard_model::{Budget, Firestore, Limits, Postgres, Redis, Report, Rules, Ticks, search};

#[derive(Parser)]
struct Options {
    /// The store whose protocol is checked
    store: Which,
    #[command(flatten)]
    size: Size,
    /// The limit in seconds for each
    #[arg(long, default_value_t = 3600)]
    seconds: u64,
    /// The number of threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// The memory for visited worlds, in GiB
    #[arg(long, default_value_t = 4)]
    gigabytes: usize,
    /// The path of the report, in JSON; the guide's report is in `tests/model/reports`
    #[arg(long)]
    report: Option<PathBuf>,
}

#[derive(Args, Clone, Copy)]
struct Size {
    /// Acquisitions of each of the three clients
    #[arg(long, default_value_t = 2)]
    acquisitions: u8,
    /// Extends, in all
    #[arg(long, default_value_t = 1)]
    extends: u8,
    /// Requests that are given up or resent, in all
    #[arg(long, default_value_t = 1)]
    lost: u8,
    /// Clients that crash, in all
    #[arg(long, default_value_t = 1)]
    crashes: u8,
    /// Acquires of which the driver sends a second copy, in all (Redis Cluster)
    #[arg(long, default_value_t = 0)]
    copies: u8,
    /// Clean-ups of expired records, in all
    #[arg(long, default_value_t = 1)]
    cleanings: u8,
    /// Clients of the TypeScript library (PostgreSQL)
    #[arg(long, default_value_t = 0)]
    typescript: usize,
    /// The difference of clocks, in ticks of the tolerance (Firestore)
    #[arg(long, default_value_t = 0)]
    drift: Ticks,
}

/// The checks of the guide.
const WHOLE: Size = Size {
    acquisitions: 2,
    extends: 1,
    lost: 1,
    crashes: 1,
    copies: 0,
    cleanings: 1,
    typescript: 0,
    drift: 0,
};

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    Redis,
    Postgres,
    Firestore,
    /// All stores, in the sizes of the guide
    All,
}

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]
fn main() -> ExitCode {
    let options = Options::parse();
    let sizes = match options.store {
        Which::All => vec![
            (Which::Redis, Size { extends: 2, ..WHOLE }),
            (Which::Redis, Size { copies: 1, ..WHOLE }),
            (Which::Postgres, Size { extends: 2, ..WHOLE }),
            (Which::Postgres, Size { typescript: 1, ..WHOLE }),
            (Which::Firestore, Size { extends: 2, ..WHOLE }),
            (Which::Firestore, Size { drift: 1, cleanings: 0, ..WHOLE }),
        ],
        one => vec![(one, options.size)],
    };
    let (mut runs, mut is_well) = (Vec::new(), true);
    for (store, size) in sizes {
        let report = run(&options, store, size);
        let name = name(store, size);
        println!("{name}: {report}");
        for missing in &report.missing {
            println!("never happened: {missing}");
        }
        for breach in &report.broken {
            println!("broken: {}\n{}", breach.rule, breach.way);
        }
        is_well &= report.is_complete;
        runs.push(told(name, size, &report));
    }
    if let Some(path) = &options.report {
        let text = format!("{:#}\n", json!({ "runs": runs }));
        if let Err(error) = std::fs::write(path, text) {
            eprintln!("{}: {error}", path.display());
            return ExitCode::FAILURE;
        }
    }
    if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn name(store: Which, size: Size) -> &'static str {
    match store {
        Which::Redis if size.copies > 0 => "Redis Cluster",
        Which::Redis => "Redis",
        Which::Postgres if size.typescript > 0 => "PostgreSQL, with TypeScript",
        Which::Postgres => "PostgreSQL",
        Which::Firestore if size.drift > 0 => "Firestore, clocks apart",
        Which::Firestore => "Firestore",
        Which::All => "all",
    }
}

#[allow(clippy::print_stderr, reason = "whoever waits is told how far it is")]
fn run(options: &Options, store: Which, size: Size) -> Report {
    let Size { acquisitions, extends, lost, crashes, copies, cleanings, typescript, drift } = size;
    let budget = Budget { extends, lost, crashes, copies, cleanings };
    let rules = Rules { acquisitions, budget, typescript, drift, ..Rules::default() };
    let limits = Limits {
        threads: options.threads,
        time: Duration::from_secs(options.seconds),
        bytes: options.gigabytes << 30,
    };
    let started = Instant::now();
    let tell = |worlds| eprintln!("{worlds} worlds in {:.0?}", started.elapsed());
    match store {
        Which::Postgres => search::<Postgres>(rules, limits, tell),
        Which::Firestore => search::<Firestore>(rules, limits, tell),
        Which::Redis | Which::All => search::<Redis>(rules, limits, tell),
    }
}

fn told(name: &str, size: Size, report: &Report) -> Value {
    let broken: Vec<_> = report.broken.iter().map(|breach| breach.rule).collect();
    json!({
        "name": name,
        "clients": 3,
        "acquisitions_each": size.acquisitions,
        "extends": size.extends,
        "lost": size.lost,
        "crashes": size.crashes,
        "copies": size.copies,
        "cleanings": size.cleanings,
        "typescript_clients": size.typescript,
        "drift": size.drift,
        "states": report.worlds,
        "steps": report.steps,
        "longest_way": report.depth,
        "seconds": report.time.as_secs(),
        "is_complete": report.is_complete,
        "broken": broken,
    })
}
