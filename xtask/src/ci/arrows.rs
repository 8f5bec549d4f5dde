//! Imports between the files of each crate in `crates`: they run one way.
//!
//! A file imports another one if its code names an item that is defined there. A re-export is
//! followed to the definition and is no import itself. Tests are left out.

mod module;
mod paths;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, bail};

use super::tidy::rust_files;
use crate::cargo::root;
use module::Module;

/// The folders of the core; each imports only from those before it. A file beside them, such as
/// `observe.rs`, counts as a folder.
const LAYERS: &[&str] = &[
    "value",
    "util",
    "rt",
    "contract",
    "observe",
    "inventory",
    "client",
    "backend",
    "authoring",
    "locking",
    "diagnostics",
];

/// The crate with the layers.
const CORE: &str = "crates/syncguard-core/src";

/// From a file to the files that it imports, each with the first name that it takes from there.
type Arrows = BTreeMap<PathBuf, BTreeMap<PathBuf, String>>;

pub(super) fn check() -> Result<()> {
    let root = root();
    let mut crates: BTreeMap<PathBuf, BTreeMap<PathBuf, String>> = BTreeMap::new();
    for path in rust_files(&root)? {
        let path = path.strip_prefix(&root)?.to_owned();
        let Some(source) = source_folder(&path) else { continue };
        let text = fs::read_to_string(root.join(&path))?;
        crates
            .entry(source.clone())
            .or_default()
            .insert(path.strip_prefix(source)?.to_owned(), text);
    }
    let mut broken = Vec::new();
    for (source, files) in &crates {
        let arrows = arrows(files).with_context(|| source.display().to_string())?;
        let mut found = circles(&arrows);
        if source == Path::new(CORE) {
            found.extend(against_layers(&arrows));
        }
        broken.extend(found.into_iter().map(|line| format!("{}: {line}", source.display())));
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

/// The folder `crates/NAME/src` of a file that is in one.
fn source_folder(path: &Path) -> Option<PathBuf> {
    let folder: PathBuf = path.iter().take(3).collect();
    (path.starts_with("crates") && folder.ends_with("src")).then_some(folder)
}

/// The imports between the files of one crate, whose paths are relative to its `src`.
fn arrows(files: &BTreeMap<PathBuf, String>) -> Result<Arrows> {
    let mut modules = BTreeMap::new();
    for (file, text) in files {
        let syntax = syn::parse_file(text).with_context(|| file.display().to_string())?;
        Module::read(file, &syntax.items, &mut modules);
    }
    let tests: Vec<_> = modules.values().flat_map(|module| module.tests.clone()).collect();
    modules.retain(|path, _| !tests.iter().any(|test| path.starts_with(test)));
    let mut arrows = Arrows::new();
    for module in modules.values() {
        for path in &module.mentions {
            let Some((target, name)) = paths::definition(&modules, path) else { continue };
            if target != module.file {
                let from = arrows.entry(module.file.clone()).or_default();
                from.entry(target).or_insert(name);
            }
        }
    }
    Ok(arrows)
}

/// One line for each group of files that import each other, with their imports.
fn circles(arrows: &Arrows) -> Vec<String> {
    let reached: BTreeMap<&PathBuf, BTreeSet<&PathBuf>> =
        arrows.keys().map(|file| (file, reached_from(file, arrows))).collect();
    let mut groups = BTreeSet::new();
    for (file, others) in &reached {
        let group: BTreeSet<&PathBuf> = others
            .iter()
            .copied()
            .filter(|other| reached.get(other).is_some_and(|back| back.contains(file)))
            .collect();
        if group.len() > 1 {
            groups.insert(group);
        }
    }
    let mut lines = Vec::new();
    for group in groups {
        let mut imports = Vec::new();
        for file in &group {
            for (target, name) in &arrows[*file] {
                if group.contains(target) {
                    imports.push(format!("{} -> {} ({name})", file.display(), target.display()));
                }
            }
        }
        lines.push(format!("{} files import each other: {}", group.len(), imports.join(", ")));
    }
    lines
}

/// All files that can be reached by imports from a file.
fn reached_from<'a>(file: &PathBuf, arrows: &'a Arrows) -> BTreeSet<&'a PathBuf> {
    let mut reached = BTreeSet::new();
    let mut open: Vec<&PathBuf> = arrows.get(file).into_iter().flat_map(BTreeMap::keys).collect();
    while let Some(next) = open.pop() {
        if reached.insert(next) {
            open.extend(arrows.get(next).into_iter().flat_map(BTreeMap::keys));
        }
    }
    reached
}

/// One line for each import from a layer that comes later.
fn against_layers(arrows: &Arrows) -> Vec<String> {
    let mut lines = Vec::new();
    for (file, targets) in arrows {
        let Some(layer) = layer(file) else { continue };
        for (target, name) in targets {
            if self::layer(target).is_some_and(|other| other > layer) {
                lines.push(format!(
                    "{} imports {name} from {}, a later layer",
                    file.display(),
                    target.display()
                ));
            }
        }
    }
    lines
}

fn layer(file: &Path) -> Option<usize> {
    let folder = file.iter().next()?.to_str()?;
    let folder = folder.strip_suffix(".rs").unwrap_or(folder);
    LAYERS.iter().position(|layer| *layer == folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Arrows {
        let owned = |(path, text): &(&str, &str)| (PathBuf::from(path), (*text).to_owned());
        arrows(&files.iter().map(owned).collect()).unwrap()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a;\nmod b;\npub use a::A;\npub use b::*;");

    #[test]
    fn finds_two_files_that_import_each_other() {
        let a = ("a.rs", "use crate::b::B;\npub struct A(B);");
        let b = ("b.rs", "pub struct B;\nimpl B { fn new() -> Option<super::a::A> { None } }");
        assert_eq!(
            circles(&found(&[ROOT, a, b])),
            ["2 files import each other: a.rs -> b.rs (B), b.rs -> a.rs (A)"]
        );
    }

    #[test]
    fn finds_a_circle_that_the_root_hides() {
        let a = ("a.rs", "use crate::B;\npub struct A(B);");
        let b = ("b.rs", "pub struct B;\nfn new() { let _ = vec![crate::A::default()]; }");
        assert_eq!(circles(&found(&[ROOT, a, b])).len(), 1);
    }

    #[test]
    fn finds_a_circle_of_a_folder_and_its_file() {
        let a = ("a/mod.rs", "mod c;\npub struct A(c::C);");
        let c = ("a/c.rs", "pub struct C;\nfn take(_: &super::A) {}");
        assert_eq!(
            circles(&found(&[ROOT, a, c])),
            ["2 files import each other: a/c.rs -> a/mod.rs (A), a/mod.rs -> a/c.rs (C)"]
        );
    }

    #[test]
    fn leaves_out_tests_and_re_exports() {
        let a = ("a.rs", "pub use crate::b::B;\npub struct A;");
        let b = ("b.rs", "pub struct B(super::A);\n#[cfg(test)]\nmod tests { use crate::a::A; }");
        let arrows = found(&[ROOT, a, b]);
        assert_eq!(circles(&arrows), [""; 0]);
        assert_eq!(arrows[Path::new("b.rs")][Path::new("a.rs")], "A");
    }

    #[test]
    fn finds_imports_from_a_later_layer() {
        let value = ("value/mod.rs", "pub struct Key(crate::locking::Guard);");
        let locking = ("locking/mod.rs", "use crate::value::Key;\npub struct Guard(Key);");
        assert_eq!(
            against_layers(&found(&[value, locking])),
            ["value/mod.rs imports Guard from locking/mod.rs, a later layer"]
        );
    }
}
