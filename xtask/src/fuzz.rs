//! `cargo xtask fuzz`

use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::cargo::{cargo, output, run as run_command};

#[derive(Args)]
pub(crate) struct Options {
    /// For how long each target runs
    #[arg(long, default_value_t = 60)]
    seconds: u32,
}

/// Where the targets are.
const FOLDER: &str = "crates/syncguard-core/fuzz";

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let toolchains = output(Command::new("rustup").args(["toolchain", "list"]));
    let nightly = toolchains.context("rustup is missing, and so is the nightly toolchain")?;
    ensure!(
        nightly.lines().any(|name| name.starts_with("nightly")),
        "the nightly toolchain is missing: rustup toolchain install nightly"
    );
    output(&mut cargo(["fuzz", "--version"]))
        .context("cargo-fuzz is missing: cargo install --locked cargo-fuzz")?;

    let targets = output(&mut cargo(["+nightly", "fuzz", "list", "--fuzz-dir", FOLDER]))?;
    ensure!(!targets.trim().is_empty(), "there is no fuzz target in {FOLDER}");
    for target in targets.lines() {
        let limit = format!("-max_total_time={}", options.seconds);
        println!("\n{target} for {} s", options.seconds);
        let mut fuzz = cargo(["+nightly", "fuzz", "run", "--fuzz-dir", FOLDER]);
        run_command(fuzz.args([target, "--", &limit]))
            .with_context(|| format!("fuzz target {target}"))?;
    }
    Ok(ExitCode::SUCCESS)
}
