//! `simulate [OPERATIONS [SEED [SECONDS]]]`: a fleet in simulation, checked run after run. Given seconds, it is
//! one run of so many simulated seconds.

#![allow(clippy::print_stdout, reason = "figures for a human eye")]

use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};

use anyhow::Result;
use syncguard_tests::history::check;
use syncguard_tests::random::Random;
use syncguard_tests::simulation::{Soak, limits, run};

fn main() -> Result<ExitCode> {
    let arguments: Vec<u64> =
        std::env::args().skip(1).map(|it| it.parse()).collect::<Result<_, _>>()?;
    let seed = arguments.get(1).copied().unwrap_or_else(Random::seed);
    if let Some(seconds) = arguments.get(2) {
        let violations = check(&run(seed, None, true, *seconds), &limits());
        violations.iter().for_each(|violation| println!("{violation}"));
        println!("{} violations", violations.len());
        return Ok(if violations.is_empty() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let operations = arguments.first().copied().unwrap_or(1_000_000);
    println!("seed {seed}");
    let soak = Soak { seed, operations, ..Soak::default() };
    let said = AtomicU64::new(0);
    let soaked = soak.go(|so_far| {
        let tenth = so_far.operations() * 10 / operations.max(1);
        if said.fetch_max(tenth, Ordering::Relaxed) < tenth {
            println!("{} operations, {:.0?}", so_far.operations(), so_far.time);
        }
    });
    println!("{soaked}");
    if let Some(failure) = &soaked.failure {
        println!("again: simulate 0 {} {}", failure.seed, failure.seconds);
        return Ok(ExitCode::FAILURE);
    }
    Ok(ExitCode::SUCCESS)
}
