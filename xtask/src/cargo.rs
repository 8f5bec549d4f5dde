//! Calling cargo.

use std::env;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use syncguard_test_services::install;

/// The folder of the workspace.
pub(crate) fn root() -> PathBuf {
    // Read at run time, because a target folder that clones share may have a copy of this program.
    let manifest = env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")), PathBuf::from);
    manifest.parent().map_or_else(|| manifest.clone(), Path::to_owned)
}

/// Cargo's target folder.
pub(crate) fn target() -> PathBuf {
    root().join(env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into()))
}

/// `cargo ARGUMENTS` in the workspace. Tests and benchmarks may install the servers they need.
pub(crate) fn cargo<I>(arguments: I) -> Command
where
    I: IntoIterator<Item: AsRef<OsStr>>,
{
    // Not $CARGO, because only rustup's own `cargo` understands `+nightly`.
    let mut command = Command::new("cargo");
    command.current_dir(root()).args(arguments).env(install::INSTALL, "1");
    command
}

/// The profiles of the workspace as a file for `cargo --config`. Another workspace that is built with them into
/// the same target folder takes the dependencies that are built there already.
pub(crate) fn profiles() -> Result<PathBuf> {
    let manifest = fs::read_to_string(root().join("Cargo.toml"))?;
    let start = manifest.find("\n[profile.").context("Cargo.toml has no profiles")?;
    let file = target().join("profiles.toml");
    fs::write(&file, &manifest[start..])?;
    Ok(file)
}

/// The files of the repository in these folders or with such names, relative to its root: those in git, and new ones.
pub(crate) fn files(of: &[&str]) -> Result<Vec<String>> {
    let mut list = Command::new("git");
    list.args(["ls-files", "--cached", "--others", "--exclude-standard", "--deduplicate", "--"]);
    let listed = output(list.current_dir(root()).args(of))?;
    let files = listed.lines().filter(|path| root().join(path).is_file());
    Ok(files.map(str::to_owned).collect())
}

/// Runs a command that inherits our output.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("cannot run {}", shown(command)))?;
    ensure!(status.success(), "{} failed: {status}", shown(command));
    Ok(())
}

/// Runs a command and returns its standard output. If the command fails, the error has all output.
pub(crate) fn output(command: &mut Command) -> Result<String> {
    let output = command.output().with_context(|| format!("cannot run {}", shown(command)))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    ensure!(
        output.status.success(),
        "{} failed: {}\n{text}{}",
        shown(command),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    Ok(text)
}

/// The command line.
pub(crate) fn shown(command: &Command) -> String {
    let words: Vec<_> = std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(OsStr::to_string_lossy)
        .collect();
    words.join(" ")
}
