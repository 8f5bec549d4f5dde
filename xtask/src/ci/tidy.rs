//! The house's own rules, those that no lint knows.

mod source;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use crate::cargo::root;
use source::{Source, without_comment};

/// Over this, a file has more than one subject.
const MAX_LINES: usize = 500;

/// Notes on what is unfinished; put together here so that this file passes.
const NOWHERE: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// What is unfinished or switched off; comments may speak of it.
const NOT_IN_CODE: &[&str] =
    &[concat!("todo", "!"), concat!("unimplemented", "!"), concat!("#[", "ignore")];

/// What stops the process; a library answers with an error.
const NOT_IN_LIBRARIES: &[&str] = &[".unwrap()", ".expect(", "panic!"];

/// How to run everything has to be found where people look first.
const IN_README: &[&str] = &["cargo run -p syncguard --example quickstart", "cargo xtask test"];

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

/// What is wrong with files, whose paths are relative to the workspace.
fn broken_in(files: &[(PathBuf, String)]) -> Vec<String> {
    let mut broken = Vec::new();
    let tests: Vec<PathBuf> =
        files.iter().flat_map(|(path, text)| test_modules(path, text)).collect();
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
        if !tests.iter().any(|module| path.with_extension("").starts_with(module)) {
            broken.extend(panics(path, text));
        }
    }
    broken
}

/// The test modules a file declares, as their paths without an extension.
fn test_modules(path: &Path, text: &str) -> Vec<PathBuf> {
    let folder = match path.file_stem().and_then(OsStr::to_str) {
        Some("lib" | "main" | "mod") => path.with_file_name(""),
        _ => path.with_extension(""),
    };
    Source::parse(text).test_modules.iter().map(|name| folder.join(name)).collect()
}

fn unfinished(path: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let code = without_comment(line);
        let notes = NOWHERE.iter().filter(|word| line.contains(**word));
        for word in notes.chain(NOT_IN_CODE.iter().filter(|word| code.contains(**word))) {
            broken.push(format!("{}:{number}: {word}", path.display()));
        }
    }
    broken
}

fn panics(path: &Path, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    for (number, line) in Source::parse(text).code {
        for call in NOT_IN_LIBRARIES.iter().filter(|call| line.contains(**call)) {
            broken.push(format!("{}:{number}: {call} outside tests", path.display()));
        }
    }
    broken
}

fn rust_files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut folders = ["crates", "tests", "xtask"].map(|name| root.join(name)).to_vec();
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| format!("{}", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let path = entry.path();
            if entry.file_type()?.is_symlink() {
                continue; // what it leads to is read where it lives
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
        let text = format!("// {}\n{}", NOWHERE.join("\n// "), NOT_IN_CODE.join("\n"));
        for path in ["tests/src/lib.rs", "crates/a/tests/b.rs", "crates/a/src/c.rs"] {
            assert_eq!(broken(&[(path, &text)]).len(), NOWHERE.len() + NOT_IN_CODE.len(), "{path}");
        }
        let comment = format!("/// {}", NOT_IN_CODE.join(" "));
        assert_eq!(broken(&[("crates/a/src/c.rs", &comment)]), [""; 0]);
    }

    #[test]
    fn finds_long_files_in_libraries() {
        let long = "\n".repeat(501);
        let found = broken(&[("crates/a/src/b.rs", &long), ("crates/a/tests/b.rs", &long)]);
        assert_eq!(found, ["crates/a/src/b.rs: 501 lines, more than 500"]);
    }

    #[test]
    fn finds_panics_in_libraries_outside_their_tests() {
        let panics = "fn f() { x.unwrap(); y.expect(\"z\"); panic!() }";
        let found = broken(&[
            ("crates/a/src/b/mod.rs", "#[cfg(test)]\nmod model;\nmod c;"),
            ("crates/a/src/b/model.rs", panics),
            ("crates/a/src/b/model/more.rs", panics),
            ("crates/a/src/b/c.rs", panics),
            ("crates/a/tests/b.rs", panics),
            ("xtask/src/main.rs", panics),
        ]);
        assert_eq!(
            found,
            [
                "crates/a/src/b/c.rs:1: .unwrap() outside tests",
                "crates/a/src/b/c.rs:1: .expect( outside tests",
                "crates/a/src/b/c.rs:1: panic! outside tests",
            ]
        );
    }
}
