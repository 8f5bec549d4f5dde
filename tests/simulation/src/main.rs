//! `simulate`: runs the simulation, and writes a report.

#![allow(clippy::print_stdout, reason = "progress for a human eye")]

use std::path::PathBuf;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, thread};

use anyhow::{Context as _, Result, ensure};
use clap::{Parser, ValueEnum as _};
use serde_json::json;
use syncguard_history::{Counts, Random};
use syncguard_simulation::{Flaw, Outcome, Plan, Store, name_of, record, run, smallest};

/// The variable by which patches choose their flaw.
const PLANTED: &str = "SYNCGUARD_FLAW";

/// A flaw that so many operations do not show is not found: a minute of a fast machine.
const MOST: u64 = 2_000_000;

/// Runs fleets on a simulated network and store, and checks their histories
#[derive(Debug, Parser)]
struct Arguments {
    /// The number of operations in all
    #[arg(long, default_value_t = 1_000_000)]
    operations: u64,
    /// After this time, such as `30s` or `5min`, no new run begins, whatever the number of operations
    #[arg(long = "for", value_parser = humantime::parse_duration)]
    lasts: Option<Duration>,
    /// The store; all stores in turn if it is not given
    #[arg(long)]
    store: Option<Store>,
    /// Decides everything; a new one if it is not given
    #[arg(long)]
    seed: Option<u64>,
    /// The number of threads, each with a seed of its own
    #[arg(long, default_value_t = 2)]
    threads: u64,
    /// Operations of one run, after which a thread begins the next run with the next seed
    #[arg(long, default_value_t = 1_000_000)]
    each: u64,
    /// Runs with a planted flaw until it is found, and shows the fewest operations that show it
    #[arg(long)]
    flaw: Option<Flaw>,
    /// Tries each flaw, or this one, on each of its stores, or this one: for `cargo xtask flaws`
    #[arg(long)]
    flaws: bool,
    /// Writes each operation of one run to this file, without checks
    #[arg(long, requires = "store", requires = "seed")]
    history: Option<PathBuf>,
    /// The path of the report, in JSON
    #[arg(long)]
    report: Option<PathBuf>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let seed = arguments.seed.unwrap_or_else(Random::seed);
    if arguments.flaws
        && let (Some(flaw), Some(store)) = (arguments.flaw, arguments.store)
    {
        return find(flaw, store, seed).map(drop);
    }
    println!("SYNCGUARD_SEED={seed}");
    if arguments.flaws {
        return tries(arguments.flaw, seed);
    }
    if let Some(flaw) = arguments.flaw {
        let store = arguments.store.unwrap_or(flaw.stores()[0]);
        if let Some(shown) = smallest(&find(flaw, store, seed)?, flaw.breaks()) {
            println!("the fewest operations that show it:\n{shown}");
        }
        return Ok(());
    }
    if let (Some(path), Some(store)) = (&arguments.history, arguments.store) {
        let history = record(&Plan::new(store, seed, arguments.operations));
        let lines = history.operations.iter().map(|operation| format!("{operation:?}\n"));
        return std::fs::write(path, lines.collect::<String>()).context("the history");
    }
    soak(&arguments, seed)
}

/// Tries each flaw on its stores, a few at a time, each in a process whose environment asks the patches for the flaw.
fn tries(only: Option<Flaw>, seed: u64) -> Result<()> {
    row("flaw", "store", "found by rule", "operations", "seconds");
    let flaws = Flaw::all().iter().filter(|flaw| only.is_none_or(|only| only == **flaw));
    let pairs =
        flaws.flat_map(|flaw| flaw.stores().iter().map(|store| (name_of(flaw), name_of(store))));
    let pairs: Vec<_> = pairs.collect();
    let (next, threads) = (AtomicUsize::new(0), thread::available_parallelism()?);
    let tries = || -> Result<Vec<&(String, String)>> {
        let mut missed = Vec::new();
        while let Some(pair) = pairs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let (flaw, store) = pair;
            let seed = seed.to_string();
            let words = ["--flaws", "--flaw", flaw, "--store", store, "--seed", &seed];
            let mut command = Command::new(env::current_exe()?);
            if !command.args(words).env(PLANTED, flaw).status()?.success() {
                missed.push(pair);
            }
        }
        Ok(missed)
    };
    let missed: Result<Vec<_>> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads.get()).map(|_| scope.spawn(tries)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a thread")).collect()
    });
    let missed = missed?.concat();
    ensure!(missed.is_empty(), "not found: {missed:?}");
    Ok(())
}

fn row(flaw: &str, store: &str, rule: &str, operations: &str, seconds: &str) {
    println!("{flaw:<18} {store:<14} {rule:<18} {operations:>10} {seconds:>8}");
}

/// Runs until a rule finds the flaw; returns the plan of the run.
fn find(flaw: Flaw, store: Store, seed: u64) -> Result<Plan> {
    let name = name_of(&flaw);
    let is_there = !flaw.is_patch() || env::var_os(PLANTED).is_some_and(|planted| planted == *name);
    ensure!(is_there, "only a patched copy has this flaw: cargo xtask flaws --only {name}");
    let started = Instant::now();
    let (mut operations, mut seeds) = (0, seed..);
    loop {
        let seed = seeds.next().unwrap_or_default();
        // Few keys, so that a lock that is left behind disturbs other callers.
        let plan = Plan { flaw: Some(flaw), keys: 8, ..Plan::new(store, seed, 20_000) };
        let outcome = run(&plan, |_| {});
        operations += outcome.counts.operations();
        let mut rules = outcome.violations.iter().map(|it| it.invariant);
        let found = rules.find(|rule| flaw.breaks().contains(rule));
        let seconds = started.elapsed().as_secs_f64();
        if found.is_some() || operations >= MOST {
            let rule = found.map_or("none".to_owned(), |it| format!("{} {it:?}", it as u8));
            row(&name, &name_of(&store), &rule, &operations.to_string(), &format!("{seconds:.1}"));
            ensure!(found.is_some(), "{name} was not found");
            return Ok(plan);
        }
    }
}

/// Runs without flaws, on several threads.
fn soak(arguments: &Arguments, seed: u64) -> Result<()> {
    let started = Instant::now();
    let share = arguments.operations.div_ceil(arguments.threads.max(1));
    let outcomes: Vec<(Plan, Outcome)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..arguments.threads.max(1))
            .map(|thread| scope.spawn(move || runs(arguments, share, seed, thread)))
            .collect();
        threads.into_iter().flat_map(|thread| thread.join().expect("a thread")).collect()
    });
    let mut counts = Counts::default();
    let (mut violated, mut outage, mut simulated, mut retained) = (0, 0, 0, 0);
    let mut violations = Vec::new();
    for (plan, outcome) in &outcomes {
        counts.add(&outcome.counts);
        violated += outcome.violated;
        outage = outage.max(outcome.longest_outage_ms);
        simulated += outcome.simulated_seconds;
        retained = retained.max(outcome.retained);
        for violation in outcome.violations.iter().take(5) {
            violations.push(format!("{:?}, seed {}: {violation}", plan.store, plan.seed));
        }
    }
    let seconds = started.elapsed().as_secs_f64();
    println!("{counts}");
    println!(
        "{} operations, {} faults, {violated} violations, longest outage {outage} ms, {simulated} s \
         simulated in {seconds:.1} s, at most {retained} kept",
        counts.operations(),
        counts.all_faults()
    );
    for violation in &violations {
        println!("{violation}");
    }
    for (plan, outcome) in outcomes.iter().filter(|(_, outcome)| outcome.violated > 0).take(3) {
        show(plan, outcome);
    }
    if let Some(path) = &arguments.report {
        let report = json!({
            "operations": counts.operations(),
            "granted": counts.granted,
            "faults": counts.all_faults(),
            "faults_by_kind": counts.faults,
            "counts": counts,
            "longest_outage_ms": outage,
            "violations": violations,
            "violated": violated,
            "seed": seed,
            "runs": outcomes.iter().map(|(plan, outcome)| json!({
                "store": plan.store,
                "seed": plan.seed,
                "operations": outcome.counts.operations(),
                "seconds": outcome.seconds,
            })).collect::<Vec<_>>(),
            "simulated_seconds": simulated,
            "seconds": seconds,
            "threads": arguments.threads,
            "most_kept_by_the_checker": retained,
            "version": env!("CARGO_PKG_VERSION"),
        });
        std::fs::write(path, serde_json::to_string_pretty(&report)? + "\n")?;
    }
    ensure!(violated == 0, "{violated} violations");
    Ok(())
}

/// The command that repeats a violation, and the fewest operations that show it.
fn show(plan: &Plan, outcome: &Outcome) {
    println!("{} violations, again with: {}", outcome.violated, plan.command());
    if let Some(shown) = smallest(plan, &[]) {
        println!("the fewest operations that show it:\n{shown}");
    }
}

/// The runs of one thread, one after the other.
fn runs(arguments: &Arguments, share: u64, seed: u64, thread: u64) -> Vec<(Plan, Outcome)> {
    let all = Store::value_variants();
    let (mut outcomes, mut done) = (Vec::new(), 0);
    let started = Instant::now();
    for number in 0_u64.. {
        let is_late = arguments.lasts.is_some_and(|most| started.elapsed() >= most);
        if done >= share || is_late {
            break;
        }
        let turn = number * arguments.threads.max(1) + thread;
        let index = usize::try_from(turn % all.len() as u64).unwrap_or(0);
        let store = arguments.store.unwrap_or(all[index]);
        let plan = Plan::new(store, seed.wrapping_add(turn), arguments.each.min(share - done));
        let outcome = run(&plan, |_| {});
        done += outcome.counts.operations();
        let operations = u32::try_from(outcome.counts.operations()).unwrap_or(u32::MAX);
        println!(
            "thread {thread}, {:.0?}: {done} operations; {store:?}, seed {}, {:.1} us each, {} violations",
            started.elapsed(),
            plan.seed,
            outcome.seconds * 1e6 / f64::from(operations.max(1)),
            outcome.violated,
        );
        outcomes.push((plan, outcome));
    }
    outcomes
}
