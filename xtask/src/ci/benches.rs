//! The workspace of the benchmarks is formatted and compiles without warnings.

use anyhow::Result;

use crate::bench::WORKSPACE;
use crate::cargo::{cargo, output, profiles, target};

pub(super) fn check() -> Result<()> {
    output(&mut cargo(["fmt", "--manifest-path", WORKSPACE, "--check"]))?;
    let mut clippy = cargo(["clippy", "--quiet", "--no-deps", "--all-targets"]);
    // The same target folder, so that dependencies of both workspaces are checked once.
    clippy
        .arg("--config")
        .arg(profiles()?)
        .args(["--manifest-path", WORKSPACE, "--", "-D", "warnings"])
        .env("CARGO_TARGET_DIR", target());
    output(&mut clippy).map(drop)
}
