//! `cargo xtask flaws`: plants each flaw, some of them in a copy of the library, and sees that the simulation finds it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};

use anyhow::{Context as _, Result, ensure};
use clap::Args;

use crate::cargo::{cargo, files, root, run as run_command, target};

#[derive(Args)]
pub(crate) struct Options {
    /// Only this flaw, such as `kept-slot`
    #[arg(long)]
    only: Option<String>,
    /// The number from which all random numbers come
    #[arg(long)]
    seed: Option<u64>,
}

/// Flaws of the library, as changes of it: unified diffs.
const PATCHES: &str = "tests/simulation/patches";

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let copy = target().join("flaws");
    if copy.exists() {
        fs::remove_dir_all(&copy)?;
    }
    for path in files(&[])? {
        write(&copy.join(&path), &fs::read(root().join(&path))?)?;
    }
    for (path, text) in patched(&root())? {
        write(&copy.join(&path), text.as_bytes())?;
    }
    // In the same target folder, whose dependencies are built already. The next build puts the usual program back.
    let mut build =
        cargo(["build", "--release", "-p", "syncguard-simulation", "--bin", "simulate"]);
    build.current_dir(&copy).env("CARGO_TARGET_DIR", target()).env("CARGO_INCREMENTAL", "0");
    run_command(&mut build)?;
    let program = copy.join("simulate");
    fs::rename(target().join("release/simulate"), &program)?;
    let mut simulate = Command::new(program);
    simulate.arg("--flaws");
    simulate.args(options.only.iter().flat_map(|flaw| ["--flaw", flaw]));
    simulate.args(options.seed.iter().flat_map(|seed| ["--seed".to_owned(), seed.to_string()]));
    run_command(&mut simulate)?;
    Ok(ExitCode::SUCCESS)
}

fn write(path: &Path, content: &[u8]) -> Result<()> {
    fs::create_dir_all(path.parent().context("a file is in a folder")?)?;
    fs::write(path, content).with_context(|| path.display().to_string())
}

/// The files of a tree that patches change, as they are with all patches.
fn patched(root: &Path) -> Result<BTreeMap<String, String>> {
    let mut files = BTreeMap::new();
    for patch in fs::read_dir(root.join(PATCHES))? {
        let path = patch?.path();
        plant(root, &fs::read_to_string(&path)?, &mut files)
            .with_context(|| format!("{} does not apply any more", path.display()))?;
    }
    Ok(files)
}

/// Applies a patch to these files, and to others of the tree. Line numbers do not count: the lines that a change replaces
/// must be there once.
fn plant(root: &Path, patch: &str, files: &mut BTreeMap<String, String>) -> Result<()> {
    for changes in patch.split("--- a/").skip(1) {
        let (path, changes) = changes.split_once('\n').context("no file")?;
        let text = files.remove(path).map_or_else(|| fs::read_to_string(root.join(path)), Ok);
        let mut text = text.context(path.to_owned())?;
        for change in changes.split("\n@@ ").skip(1) {
            let lines = |but: char| -> String {
                let lines =
                    change.split_inclusive('\n').skip(1).filter(|line| !line.starts_with(but));
                lines.map(|line| line.get(1..).unwrap_or_default()).collect()
            };
            let (before, after) = (lines('+'), lines('-'));
            let count = text.matches(&before).count();
            ensure!(count == 1, "{path} has these lines {count} times:\n{before}");
            text = text.replacen(&before, &after, 1);
        }
        files.insert(path.to_owned(), text);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_patch_applies_to_the_library() {
        assert!(!patched(&root()).unwrap().is_empty());
    }

    #[test]
    fn a_patch_changes_its_lines_or_is_refused() {
        let patch = "Words.\n--- a/file\n+++ b/file\n@@ -1,2 +1,2 @@ fn\n one\n-two\n+2\n@@ -8 +8,2 @@\n six\n+seven\n";
        let plant = |text: &str| {
            let mut files = BTreeMap::from([("file".to_owned(), text.to_owned())]);
            plant(Path::new(""), patch, &mut files).map(|()| files.remove("file").unwrap())
        };
        assert_eq!(
            plant("zero\none\ntwo\nthree\nsix\n").unwrap(),
            "zero\none\n2\nthree\nsix\nseven\n"
        );
        for other in ["one\n2\nsix\n", "one\ntwo\none\ntwo\nsix\n", "one\ntwo\n"] {
            assert!(plant(other).is_err(), "{other}");
        }
    }
}
