//! A statement or script with a mirror in a model or the simulation is not changed alone.
//!
//! `tests/mirrored.txt` has a hash of each such text, without its comments and spaces. If a text has changed, this
//! check names the files that mirror it, according to the names in their comments.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::tidy::rust_files;
use crate::cargo::root;

const LIST: &str = "tests/mirrored.txt";
/// The folders of the mirrors.
const MIRRORS: [&str; 2] = ["tests/model/src", "tests/simulation/src"];
/// The folders of the texts.
const SOURCES: [&str; 2] = ["crates/syncguard-redis/src/lua", "crates/syncguard-postgres/src/sql"];
/// The beginning of a comment in Lua and in SQL.
const COMMENT: &str = "--";

pub(super) fn check() -> Result<()> {
    let root = root();
    let mut texts = BTreeMap::new();
    for folder in SOURCES {
        for file in fs::read_dir(root.join(folder)).context(folder)? {
            let path = file?.path();
            texts.insert(name(&path), number(&fs::read_to_string(&path)?));
        }
    }
    let mut mirrors = Vec::new();
    for path in rust_files(&root)? {
        let shown = path.strip_prefix(&root)?;
        if MIRRORS.iter().any(|folder| shown.starts_with(folder)) {
            mirrors.push((shown.to_owned(), fs::read_to_string(&path)?));
        }
    }
    let list = fs::read_to_string(root.join(LIST)).context(LIST)?;
    let changed = changed(&texts, &mirrors, &list);
    if !changed.is_empty() {
        bail!("{}", changed.join("\n"));
    }
    Ok(())
}

/// A line for each changed text that a mirror names.
fn changed(
    texts: &BTreeMap<String, String>,
    mirrors: &[(PathBuf, String)],
    list: &str,
) -> Vec<String> {
    let mut changed = Vec::new();
    for (name, number) in texts {
        let by: Vec<String> = mirrors
            .iter()
            .filter(|(_, text)| names(text, name))
            .map(|(path, _)| path.display().to_string())
            .collect();
        let line = format!("{name} {number}");
        if by.is_empty() || list.lines().any(|listed| listed == line) {
            continue;
        }
        changed.push(format!(
            "{name} has changed. See whether what mirrors it has to follow, then write `{line}` into {LIST}: {}",
            by.join(", ")
        ));
    }
    changed
}

/// Returns true if a text names the file, and not a longer name that ends with it.
fn names(text: &str, file: &str) -> bool {
    text.match_indices(file).any(|(at, _)| {
        let before = text[..at].chars().next_back();
        before.is_none_or(|before| !before.is_alphanumeric() && before != '_')
    })
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

/// FNV-1a over the part of the text that a server reads.
fn number(text: &str) -> String {
    let lines = text.lines().map(|line| line.split(COMMENT).next().unwrap_or_default());
    let bytes = lines.flat_map(str::bytes).filter(|byte| !byte.is_ascii_whitespace());
    let number = bytes.fold(0xcbf2_9ce4_8422_2325_u64, |number, byte| {
        (number ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    });
    format!("{number:016x}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changed_text_names_its_mirrors() {
        let text = "SELECT 1; -- one\n";
        let listed = format!("a.sql {}", number(text));
        let of = |text: &str| BTreeMap::from([("a.sql".to_owned(), number(text))]);
        let mirrors = [
            (PathBuf::from("twin.rs"), "//! a.sql".to_owned()),
            (PathBuf::from("other.rs"), "//! `data.sql`".to_owned()),
        ];
        assert!(changed(&of(text), &mirrors, &listed).is_empty());
        assert!(changed(&of("SELECT   1; -- another comment"), &mirrors, &listed).is_empty());
        let [found] = &changed(&of("SELECT 2;"), &mirrors, &listed)[..] else { panic!("not seen") };
        assert!(found.contains("twin.rs") && !found.contains("other.rs"), "{found}");
        assert!(changed(&of("SELECT 2;"), &mirrors[1..], &listed).is_empty());
    }
}
