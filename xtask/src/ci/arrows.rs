//! The layers of the core: a folder imports only from those before it. A re-export is an import, too.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use anyhow::{Context as _, Result, bail};

use crate::cargo::{files, root};

/// The folders of the core, in their order. A file beside them, such as `observe.rs`, counts as a folder.
const LAYERS: [&str; 12] = [
    "value",
    "util",
    "rt",
    "contract",
    "observe",
    "inventory",
    "client",
    "backend",
    "cancel",
    "locking",
    "authoring",
    "diagnostics",
];

const CORE: &str = "crates/syncguard-core/src/";

pub(super) fn check() -> Result<()> {
    let mut texts = BTreeMap::new();
    for path in files(&[CORE])? {
        let text = fs::read_to_string(root().join(&path)).with_context(|| path.clone())?;
        texts.insert(path.strip_prefix(CORE).unwrap_or(&path).to_owned(), text);
    }
    let broken: Vec<_> = against_layers(&texts).into_iter().collect();
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

/// One line for each import from a later layer. The paths are relative to `src`.
fn against_layers(files: &BTreeMap<String, String>) -> BTreeSet<String> {
    let shortcuts = shortcuts(files);
    let mut lines = BTreeSet::new();
    for (path, text) in files {
        let Some(layer) = layer_of(path) else { continue };
        for name in mentions(path, text) {
            let target = rank(&name).or_else(|| shortcuts.get(&name).copied());
            if let Some(target) = target.filter(|target| *target > layer) {
                let (from, to) = (LAYERS[layer], LAYERS[target]);
                lines.insert(format!("{from} imports {to}, a later layer: {name} in {path}"));
            }
        }
    }
    lines
}

/// The layers of the names that the root re-exports, and of the macros, which the root has by nature.
fn shortcuts(files: &BTreeMap<String, String>) -> BTreeMap<String, usize> {
    let mut shortcuts = BTreeMap::new();
    for statement in files.get("lib.rs").map_or("", String::as_str).split(';') {
        let Some((_, path)) = statement.split_once("pub use self::") else { continue };
        let mut names = words(path);
        let Some(layer) = names.next().and_then(rank) else { continue };
        shortcuts.extend(names.map(|name| (name.to_owned(), layer)));
    }
    for (path, text) in files {
        let Some(layer) = layer_of(path) else { continue };
        for rest in text.split("macro_rules! ").skip(1) {
            shortcuts.extend(words(rest).next().map(|name| (name.to_owned(), layer)));
        }
    }
    shortcuts
}

/// The first names of the paths from the crate's root in the code of a file, without its tests.
fn mentions(path: &str, text: &str) -> BTreeSet<String> {
    let mut found = BTreeSet::new();
    if path.ends_with("tests.rs") {
        return found;
    }
    // `super` is the root in a file that is a layer itself.
    let is_top = path.ends_with("/mod.rs") && path.matches('/').count() == 1 || !path.contains('/');
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    for line in code.lines().filter(|line| !line.trim_start().starts_with("//")) {
        for (start, _) in line.match_indices("::") {
            let before = line[..start].rsplit(|c: char| !c.is_alphanumeric() && c != '_').next();
            if before == Some("crate") || is_top && before == Some("super") {
                found.extend(words(&line[start + 2..]).next().map(str::to_owned));
            }
        }
    }
    found
}

fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_alphanumeric() && c != '_').filter(|word| !word.is_empty())
}

fn layer_of(path: &str) -> Option<usize> {
    rank(path.split(['/', '.']).next()?)
}

fn rank(name: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_imports_from_a_later_layer() {
        let files = [
            ("lib.rs", "pub use self::value::Key;\npub use self::locking::{Guard, lock};"),
            ("value/mod.rs", "use crate::Guard;\n#[cfg(test)]\nmod tests { use crate::rt; }"),
            ("value/tests.rs", "use crate::locking;"),
            (
                "util/mod.rs",
                "// crate::locking\npub use super::contract::X;\nfn f(_: crate::Key) {}",
            ),
            ("util/deep.rs", "use super::client::Y;"),
            ("contract/mod.rs", "macro_rules! forward { () => { $crate::locking::lock() } }"),
            ("rt/mod.rs", "crate::forward!();"),
            ("locking/mod.rs", "use crate::value::Key;\npub struct Guard(Key);"),
        ];
        let files = files.map(|(path, text)| (path.to_owned(), text.to_owned())).into();
        let found = against_layers(&files).into_iter().collect::<Vec<_>>().join("\n");
        let expected = "\
contract imports locking, a later layer: locking in contract/mod.rs
rt imports contract, a later layer: forward in rt/mod.rs
util imports contract, a later layer: contract in util/mod.rs
value imports locking, a later layer: Guard in value/mod.rs";
        assert_eq!(found, expected);
    }
}
