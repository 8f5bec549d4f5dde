//! Licences, sources and banned packages, by cargo-deny and `deny.toml`.

use std::env;
use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context as _, Result};

use crate::cargo::{cargo, output, root};

/// The version that is installed if there is none; keep in step with `deny.toml`.
const VERSION: &str = "0.20.2";

pub(super) fn check() -> Result<()> {
    let mut command = Command::new(program()?);
    // Without the advisories: their database is on GitHub, which some machines that run this cannot reach.
    command.current_dir(root()).args(["check", "bans", "licenses", "sources"]);
    output(&mut command).map(drop)
}

fn program() -> Result<PathBuf> {
    let tools = root().join("target/tools");
    let path = env::var_os("PATH").unwrap_or_default();
    let found = env::split_paths(&path)
        .chain([tools.join("bin")])
        .map(|folder| folder.join("cargo-deny"))
        .find(|program| program.is_file());
    if let Some(program) = found {
        return Ok(program);
    }
    // A build with its release profile takes a minute longer than all of its checks.
    let mut install = cargo(["install", "--quiet", "--locked", "--debug"]);
    install.env("CARGO_PROFILE_DEV_DEBUG", "0");
    install.arg(format!("cargo-deny@{VERSION}")).arg("--root").arg(&tools);
    output(&mut install).context("cargo-deny is missing and cannot be installed")?;
    Ok(tools.join("bin/cargo-deny"))
}
