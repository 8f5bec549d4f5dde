//! An earlier state of the library.

use std::path::Path;
use std::process::Command;

use anyhow::{Context as _, Result, ensure};

use crate::probe::Probe;

/// The state with which the targets compare.
pub(crate) const BASELINE: &str = "a88b9821";

/// A program and the libraries that it needs, which are built with the other state, and their place there.
const OURS: [[&str; 2]; 3] = [
    ["Cargo.toml", "Cargo.toml"],
    ["Cargo.lock", "Cargo.lock"],
    ["src/bin/probe.rs", "src/bin/probe_before.rs"],
];

/// The probe with the library as it was at a commit, built into the target folder of this program.
pub(crate) fn build(commit: &str) -> Result<Probe> {
    let bench = Path::new(env!("CARGO_MANIFEST_DIR"));
    let program = std::env::current_exe()?;
    let profile = program.parent().context("a folder of the profile")?;
    let target = profile.parent().context("a target folder")?;
    let tree = target.join("baseline").join(commit);
    if !tree.is_dir() {
        let unfinished = tree.with_extension("unfinished");
        std::fs::create_dir_all(&unfinished)?;
        let unpack = "git archive \"$1\" | tar -x -C \"$2\"";
        let mut shell = Command::new("sh");
        shell.args(["-ec", unpack, "sh", commit]).arg(&unfinished).current_dir(bench.join("../.."));
        ensure!(shell.status()?.success(), "{commit}: no such state");
        std::fs::rename(&unfinished, &tree)?;
    }
    for [file, place] in OURS {
        let (file, place) = (bench.join(file), tree.join("tests/bench").join(place));
        // An unchanged file is not built again.
        if std::fs::read(&place).ok() != std::fs::read(&file).ok() {
            std::fs::copy(file, place)?;
        }
    }
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--bin", "probe_before", "--manifest-path", "tests/bench/Cargo.toml"]);
    if profile.ends_with("release") {
        cargo.arg("--release");
    }
    // The same folder, so that the libraries are built once.
    let status = cargo.arg("--target-dir").arg(target).current_dir(&tree).status()?;
    ensure!(status.success(), "{commit} does not build");
    Ok(Probe(profile.join("probe_before")))
}
