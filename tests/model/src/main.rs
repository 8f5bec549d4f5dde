//! Checks one model in sizes of one's choice: more takes longer, and may need more memory than there is.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::{Parser, ValueEnum};
use syncguard_model::{Budget, Firestore, Limits, Postgres, Redis, Rules, Ticks, search};

#[derive(Parser)]
struct Options {
    /// The store whose protocol is checked
    store: Which,
    /// Acquisitions of each of the three clients
    #[arg(long, default_value_t = 2)]
    acquisitions: u8,
    /// Extends, in all
    #[arg(long, default_value_t = 2)]
    extends: u8,
    /// Requests that are given up, in all
    #[arg(long, default_value_t = 1)]
    lost: u8,
    /// Clients that end without a word, in all
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
    /// How far clocks are apart, in ticks of the tolerance (Firestore)
    #[arg(long, default_value_t = 0)]
    drift: Ticks,
    /// How many seconds it may take
    #[arg(long, default_value_t = 600)]
    seconds: u64,
    /// How many threads work on it
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// How much memory there is for visited worlds, in GiB
    #[arg(long, default_value_t = 4)]
    gigabytes: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Redis,
    Postgres,
    Firestore,
}

#[allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line tool talks to its user"
)]
fn main() -> ExitCode {
    let options = Options::parse();
    let Options { extends, lost, crashes, copies, cleanings, .. } = options;
    let rules = Rules {
        acquisitions: options.acquisitions,
        budget: Budget { extends, lost, crashes, copies, cleanings },
        typescript: options.typescript,
        drift: options.drift,
        ..Rules::default()
    };
    let limits = Limits {
        threads: options.threads,
        time: Duration::from_secs(options.seconds),
        bytes: options.gigabytes << 30,
    };
    let started = Instant::now();
    let tell = |worlds| eprintln!("{worlds} worlds in {:.0?}", started.elapsed());
    let report = match options.store {
        Which::Redis => search::<Redis>(rules, limits, tell),
        Which::Firestore => search::<Firestore>(rules, limits, tell),
        Which::Postgres => search::<Postgres>(rules, limits, tell),
    };
    println!("{report}");
    for name in &report.missing {
        println!("never happened: {name}");
    }
    for (name, way) in &report.broken {
        println!("broken: {name}\n{way}");
    }
    if report.broken.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
