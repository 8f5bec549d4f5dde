//! Checks one model in sizes of one's choice: more takes longer, and may need more memory than there is.

use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, ValueEnum};
use syncguard_model::{Budget, Firestore, Postgres, Redis, Rules, Ticks, check_within};

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
}

#[derive(Clone, Copy, ValueEnum)]
enum Which {
    Redis,
    Postgres,
    Firestore,
}

#[allow(clippy::print_stdout, reason = "a command-line tool talks to its user")]
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
    let time = Duration::from_secs(options.seconds);
    let report = match options.store {
        Which::Redis => check_within::<Redis>(rules, time),
        Which::Firestore => check_within::<Firestore>(rules, time),
        Which::Postgres => check_within::<Postgres>(rules, time),
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
