//! `cargo xtask mutants`

use std::process::ExitCode;

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::cargo::{cargo, output, run as run_command, target};

#[derive(Args)]
pub(crate) struct Options {
    /// More options for cargo-mutants, such as `--re PATH` for a file, `--package NAME`, `--in-diff FILE`, `--shard
    /// 0/8` or `--list`; `.cargo/mutants.toml` says what it changes and which changes may survive
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    ensure!(
        !options.arguments.iter().any(|argument| adds_files(argument)),
        "--file would add to the files of .cargo/mutants.toml; for one of them, say --re PATH"
    );
    output(&mut cargo(["mutants", "--version"]))
        .context("cargo-mutants is missing: cargo install --locked cargo-mutants")?;
    let mut command = cargo(["mutants", "--workspace", "--output"]);
    command.arg(target()).args(&options.arguments);
    run_command(&mut command).with_context(|| {
        let folder = target().join("mutants.out");
        format!("what no test noticed is in missed.txt and timeout.txt, in {}", folder.display())
    })?;
    Ok(ExitCode::SUCCESS)
}

fn adds_files(argument: &str) -> bool {
    argument == "-f" || argument == "--file" || argument.starts_with("--file=")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_add_files_is_known() {
        for argument in ["-f", "--file", "--file=a.rs"] {
            assert!(adds_files(argument), "{argument}");
        }
        for argument in ["--re", "a.rs", "--in-diff", "--shard"] {
            assert!(!adds_files(argument), "{argument}");
        }
    }
}
