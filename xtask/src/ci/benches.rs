//! The benchmarks of the workspace beside this one are formatted, and compile without a warning.

use anyhow::Result;

use crate::bench::WORKSPACE;
use crate::cargo::{cargo, output, profiles, target};

pub(super) fn check() -> Result<()> {
    output(&mut cargo(["fmt", "--manifest-path", WORKSPACE, "--check"]))?;
    let mut clippy = cargo(["clippy", "--quiet", "--no-deps", "--all-targets"]);
    // Here as well, so that what both workspaces need is checked once.
    clippy
        .arg("--config")
        .arg(profiles()?)
        .args(["--manifest-path", WORKSPACE, "--", "-D", "warnings"])
        .env("CARGO_TARGET_DIR", target());
    output(&mut clippy).map(drop)
}
