//! `cargo xtask api`: lists of the public items of each published crate, for reviews.

use std::fs;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, Result, bail};
use clap::Args;

use crate::cargo::{cargo, output, root, target, unstable_rustdoc};
use crate::metadata::{self, Package};

/// rustdoc's JSON differs from version to version: the crate `public-api` reads the JSON of this one.
const TOOLCHAIN: &str = "1.95.0";

/// These traits are of no interest to users, and nearly every type has them.
const LEFT_OUT: &[&str] = &[
    "core::marker::Freeze",
    "core::marker::StructuralPartialEq",
    "core::marker::UnsafeUnpin",
    "core::panic::",
];

#[derive(Args)]
pub(crate) struct Options {
    /// Updates the lists
    #[arg(long)]
    bless: bool,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    if options.bless {
        describe()?;
        for package in libraries()? {
            fs::write(snapshot(&package), items(&package)?)?;
        }
    } else {
        check()?;
    }
    Ok(ExitCode::SUCCESS)
}

pub(crate) fn check() -> Result<()> {
    describe()?;
    let mut changed = String::new();
    for package in libraries()? {
        let file = snapshot(&package);
        let before = fs::read_to_string(&file).with_context(|| format!("{}", file.display()))?;
        changed += &difference(&before, &items(&package)?);
    }
    if !changed.is_empty() {
        bail!("{changed}If that is meant, write it down: cargo xtask api --bless");
    }
    Ok(())
}

fn libraries() -> Result<Vec<Package>> {
    Ok(metadata::published()?.into_iter().filter(|package| package.is_library).collect())
}

fn snapshot(package: &Package) -> PathBuf {
    root().join("xtask/api").join(format!("{}.txt", package.name))
}

/// Describes the public items of each crate of the workspace in a JSON file.
fn describe() -> Result<()> {
    let mut command = cargo(["doc", "--workspace", "--lib", "--no-deps", "--all-features"]);
    command.env("RUSTUP_TOOLCHAIN", TOOLCHAIN).env("RUSTDOC", unstable_rustdoc());
    command.env("RUSTDOCFLAGS", "-Z unstable-options --output-format json");
    output(&mut command).map(drop)
}

/// A line for each item.
fn items(package: &Package) -> Result<String> {
    let json = target().join("doc").join(package.name.replace('-', "_") + ".json");
    let items = public_api::Builder::from_rustdoc_json(json).omit_blanket_impls(true).build()?;
    let lines = items.items().map(|item| format!("{item}\n"));
    Ok(lines.filter(|line| !LEFT_OUT.iter().any(|trait_| line.contains(trait_))).collect())
}

/// The lines that only one of two texts has.
fn difference(before: &str, now: &str) -> String {
    let gone = before.lines().filter(|line| !now.lines().any(|other| other == *line));
    let new = now.lines().filter(|line| !before.lines().any(|other| other == *line));
    let gone = gone.map(|line| format!("- {line}\n"));
    gone.chain(new.map(|line| format!("+ {line}\n"))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_what_is_gone_and_what_is_new() {
        let text = "pub fn a()\npub fn b()\n";
        assert_eq!(difference(text, text), "");
        assert_eq!(difference(text, "pub fn b()\npub fn c()\n"), "- pub fn a()\n+ pub fn c()\n");
    }
}
