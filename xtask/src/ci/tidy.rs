//! The project's own rules that no lint checks.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cargo::root;

/// A longer file has more than one subject.
const MAX_LINES: usize = 500;

/// Marks of unfinished work. They are put together here so that this file passes.
const NOWHERE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// A disabled test. With a reason, no lint objects.
const NOT_RUN: &str = "#[ignore";

/// A library returns an error instead of stopping the process. This is not among the workspace's lints, which would
/// apply to tests too.
const IN_EVERY_LIBRARY: &str = "#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]";

/// The commands for all tests and checks have to be in the pages that people read first.
const IN_README: &[&str] = &[
    "cargo run -p syncguard --example quickstart",
    "cargo run -p syncguard --features sqlite --example processes",
    "cargo xtask test",
];

pub(super) fn check() -> Result<()> {
    let root = root();
    let mut files = Vec::new();
    for path in rust_files(&root)? {
        let text = fs::read_to_string(&path)?;
        files.push((path.strip_prefix(&root)?.to_owned(), text));
    }
    let mut broken = broken_in(&files);
    let readme = fs::read_to_string(root.join("README.md")).unwrap_or_default();
    for command in IN_README.iter().filter(|command| !readme.contains(**command)) {
        broken.push(format!("README.md: does not mention `{command}`"));
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

/// The violations in files, whose paths are relative to the workspace.
fn broken_in(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut broken = Vec::new();
    for (path, text) in files {
        broken.extend(unfinished(path, text));
        // `crates/NAME/src/…`
        if !path.starts_with("crates") || path.iter().nth(2).is_none_or(|folder| folder != "src") {
            continue;
        }
        let lines = text.lines().count();
        if lines > MAX_LINES {
            broken.push(format!("{}: {lines} lines, more than {MAX_LINES}", path.display()));
        }
        if path.ends_with("src/lib.rs") && !text.lines().any(|line| line == IN_EVERY_LIBRARY) {
            broken.push(format!("{}: does not say {IN_EVERY_LIBRARY}", path.display()));
        }
    }
    broken
}

fn unfinished(path: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let notes = NOWHERE.iter().copied().filter(|word| line.contains(*word));
        for word in notes.chain(line.trim_start().starts_with(NOT_RUN).then_some(NOT_RUN)) {
            broken.push(format!("{}:{number}: {word}", path.display()));
        }
    }
    broken
}

pub(super) fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = ["crates", "tests", "xtask"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_symlink() {
                continue; // its target is read in its own place
            }
            if path.is_dir() && path.file_name().is_some_and(|name| name != "target") {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broken(files: &[(&str, &str)]) -> Vec<String> {
        let owned = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
        broken_in(&files.iter().map(owned).collect::<Vec<_>>())
    }

    #[test]
    fn finds_what_is_unfinished_in_any_file() {
        let text = format!("// {}\n    {NOT_RUN} = \"slow\"]", NOWHERE.join("\n// "));
        for path in ["tests/src/lib.rs", "crates/a/tests/b.rs", "crates/a/src/c.rs"] {
            assert_eq!(broken(&[(path, &text)]).len(), NOWHERE.len() + 1, "{path}");
        }
        let comment = format!("/// {NOT_RUN}");
        assert_eq!(broken(&[("crates/a/src/c.rs", &comment)]), [""; 0]);
    }

    #[test]
    fn finds_long_files_in_libraries() {
        let long = "\n".repeat(501);
        let found = broken(&[("crates/a/src/b.rs", &long), ("crates/a/tests/b.rs", &long)]);
        assert_eq!(found, ["crates/a/src/b.rs: 501 lines, more than 500"]);
    }

    #[test]
    fn finds_libraries_that_may_panic() {
        let denies = format!("//! A library.\n\n{IN_EVERY_LIBRARY}\n");
        let found = broken(&[
            ("crates/a/src/lib.rs", denies.as_str()),
            ("crates/b/src/lib.rs", "//! A library."),
            ("crates/b/src/c.rs", ""),
            ("tests/src/lib.rs", ""),
        ]);
        assert_eq!(found, [format!("crates/b/src/lib.rs: does not say {IN_EVERY_LIBRARY}")]);
    }
}
