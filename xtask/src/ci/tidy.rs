//! The project's own rules that no lint checks.

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};

use crate::cargo::{files, root};

/// A longer file of a library has more than one subject.
const MAX_LINES: usize = 500;

/// A disabled test: with a reason, no lint objects.
const NOT_RUN: &str = "#[ignore";

/// A library returns an error instead of stopping the process. Among the workspace's lints, this would apply to tests, too.
const IN_EVERY_LIBRARY: &str = "#![deny(clippy::unwrap_used, clippy::expect_used, clippy::panic)]";

pub(super) fn check() -> Result<()> {
    let mut broken = Vec::new();
    for path in files(&["*.rs"])? {
        broken.extend(broken_in(&path, &fs::read_to_string(root().join(&path))?));
    }
    for path in files(&["*.md"])? {
        let page = root().join(&path);
        let folder = page.parent().unwrap_or(Path::new("/"));
        let text = fs::read_to_string(&page)?;
        let dead = linked_files(&text).filter(|file| !folder.join(file).exists());
        broken.extend(dead.map(|file| format!("{path}: there is no file {file}")));
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

fn broken_in(path: &str, text: &str) -> Vec<String> {
    let mut broken = Vec::new();
    if text.lines().any(|line| line.trim_start().starts_with(NOT_RUN)) {
        broken.push(format!("{path}: a test is ignored"));
    }
    let Some((name, file)) = path.strip_prefix("crates/").and_then(|it| it.split_once("/src/"))
    else {
        return broken;
    };
    let lines = text.lines().count();
    if lines > MAX_LINES {
        broken.push(format!("{path}: {lines} lines, more than {MAX_LINES}"));
    }
    // The fuzz targets are no library that anybody uses.
    let is_library = file == "lib.rs" && !name.contains('/');
    if is_library && !text.contains(&format!("\n{IN_EVERY_LIBRARY}\n")) {
        broken.push(format!("{path}: does not say {IN_EVERY_LIBRARY}"));
    }
    broken
}

/// The files that a page in Markdown links to. Links with a colon lead to other sites or to items of the documentation.
fn linked_files(text: &str) -> impl Iterator<Item = &str> {
    let targets = text.split("](").skip(1).filter_map(|rest| rest.split([')', '#', ' ']).next());
    targets.filter(|target| target.contains(['.', '/']) && !target.contains([':', '"', '\n']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_each_violation() {
        let long = "\n".repeat(501);
        let denies = format!("//! A library.\n\n{IN_EVERY_LIBRARY}\n");
        for (path, text, found) in [
            ("tests/src/lib.rs", format!("    {NOT_RUN} = \"slow\"]"), 1),
            ("tests/src/lib.rs", format!("/// {NOT_RUN}"), 0),
            ("crates/a/src/b.rs", long.clone(), 1),
            ("crates/a/tests/b.rs", long, 0),
            ("crates/a/src/lib.rs", denies, 0),
            ("crates/a/src/lib.rs", "//! A library.".to_owned(), 1),
        ] {
            assert_eq!(broken_in(path, &text).len(), found, "{path} {text}");
        }
    }

    #[test]
    fn finds_the_files_of_links() {
        let text = "[a](b.md#c), [d](../e/f), [g](https://h.example/i), [j](crate::k), [l](#m), [n](LockGuard::drop)";
        assert_eq!(linked_files(text).collect::<Vec<_>>(), ["b.md", "../e/f"]);
    }
}
