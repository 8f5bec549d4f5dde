//! `cargo xtask dist`: the completions and man pages of the command, as packagers take them.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cargo::{cargo, output, root};

#[derive(Args)]
pub(crate) struct Options {
    /// Writes down what they are now
    #[arg(long)]
    bless: bool,
}

/// Each file with what the command is asked for it.
const FILES: &[(&str, &[&str])] = &[
    ("_syncguard", &["completions", "zsh"]),
    ("syncguard.bash", &["completions", "bash"]),
    ("syncguard.fish", &["completions", "fish"]),
    ("syncguard.1", &["man"]),
    ("syncguard-copy-fences.1", &["man", "copy-fences"]),
    ("syncguard-doctor.1", &["man", "doctor"]),
    ("syncguard-fence.1", &["man", "fence"]),
    ("syncguard-ls.1", &["man", "ls"]),
    ("syncguard-release.1", &["man", "release"]),
    ("syncguard-run.1", &["man", "run"]),
    ("syncguard-status.1", &["man", "status"]),
    ("syncguard-watch.1", &["man", "watch"]),
];

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.bless {
        fs::create_dir_all(folder())?;
        for (name, arguments) in FILES {
            fs::write(folder().join(name), generated(arguments)?)?;
        }
    } else {
        check()?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check() -> Result<()> {
    let mut changed = Vec::new();
    for (name, arguments) in FILES {
        let file = folder().join(name);
        let before = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        if before != generated(arguments)? {
            changed.push(*name);
        }
    }
    if !changed.is_empty() {
        bail!(
            "{} changed. If that is meant, write it down: cargo xtask dist --bless",
            changed.join(", ")
        );
    }
    Ok(())
}

fn folder() -> PathBuf {
    root().join("crates/syncguard-cli/dist")
}

/// One store is enough: options do not depend on them.
fn generated(arguments: &[&str]) -> Result<String> {
    let mut command = cargo(["run", "--quiet", "-p", "syncguard-cli", "--no-default-features"]);
    command.args(["--features", "generate,log,permits,sqlite,terminal", "--"]);
    output(command.args(arguments))
}
