//! `cargo xtask fuzz`

use std::fs;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::cargo::{cargo, output, root, run as run_command, target as target_folder};

#[derive(Args)]
pub(crate) struct Options {
    /// How long each target runs
    #[arg(long, default_value_t = SECONDS)]
    seconds: u32,
    /// Only targets whose names contain one of these
    names: Vec<String>,
}

const SECONDS: u32 = 60;

impl Default for Options {
    fn default() -> Self {
        Self { seconds: SECONDS, names: Vec::new() }
    }
}

/// The folder of the targets; its folder `corpus` has the kept inputs.
const FOLDERS: [&str; 2] = ["crates/syncguard-core/fuzz", "tests/fuzz"];

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    output(&mut cargo(["fuzz", "--version"]))
        .context("cargo-fuzz is missing: cargo install --locked cargo-fuzz")?;
    let has_nightly = has_nightly();
    if !has_nightly {
        println!(
            "no nightly toolchain: without the address sanitizer, on the compiler that is there"
        );
    }
    for folder in FOLDERS {
        let targets = output(fuzz(has_nightly).args(["list", "--fuzz-dir", folder]))?;
        ensure!(!targets.trim().is_empty(), "there is no fuzz target in {folder}");
        let wanted = |target: &&str| {
            options.names.is_empty() || options.names.iter().any(|name| target.contains(name))
        };
        for target in targets.lines().filter(wanted) {
            println!("\n{target} for {} s", options.seconds);
            run_target(folder, target, has_nightly, options.seconds)
                .with_context(|| format!("fuzz target {target}"))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn run_target(folder: &str, target: &str, has_nightly: bool, seconds: u32) -> Result<()> {
    let mut command = fuzz(has_nightly);
    command.args(["run", "--fuzz-dir", folder]);
    if !has_nightly {
        command.args(["--sanitizer", "none"]);
    }
    // New inputs go to another folder, so that the kept corpus stays small.
    let found = target_folder().join("fuzz-corpus").join(target);
    fs::create_dir_all(&found)?;
    command.arg(target).arg(&found);
    let kept = root().join(folder).join("corpus").join(target);
    if kept.is_dir() {
        command.arg(&kept);
    }
    run_command(command.args(["--", &format!("-max_total_time={seconds}")]))
}

/// `cargo fuzz`, with a compiler that supports its options.
fn fuzz(has_nightly: bool) -> Command {
    if has_nightly {
        return cargo(["+nightly", "fuzz"]);
    }
    let mut command = cargo(["fuzz"]);
    command.env("RUSTC_BOOTSTRAP", "1");
    command
}

/// Only an installed toolchain: rustup would download a missing one.
fn has_nightly() -> bool {
    let toolchains = output(Command::new("rustup").args(["toolchain", "list"]));
    toolchains.is_ok_and(|all| all.lines().any(|name| name.starts_with("nightly")))
}
