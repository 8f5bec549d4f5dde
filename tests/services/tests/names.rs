//! Pages, manifests and workflows name each store of the list.

use std::fs;
use std::path::{Path, PathBuf};

use syncguard_test_services::store::Store::{self, Etcd, Memory, Sqlite};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// A part of a file, from one text to the next one, in which each store has this form, but not these stores: no process
/// shares memory, and no server has a file.
type Place = (&'static str, &'static str, &'static str, &'static str, &'static [Store]);

#[rustfmt::skip]
const PLACES: &[Place] = &[
    ("Cargo.toml", "\nmembers = [", "]", "\"crates/syncguard-{name}\"", &[]),
    ("crates/syncguard/Cargo.toml", "[features]", "[dependencies]", "\n{name} = [\"dep:syncguard-{name}\"]", &[]),
    ("crates/syncguard/src/lib.rs", "//! # Features", "//! # The guide", "//! - `{name}`", &[]),
    ("crates/syncguard/src/lib.rs", "#![cfg_attr(\n    all(", "doc = include_str!", "feature = \"{name}\"", &[]),
    ("crates/syncguard/src/lib.rs", "not(all(", "doc = ", "feature = \"{name}\"", &[]),
    ("crates/syncguard/src/lib.rs", "#[cfg(all(\n    any(doc", "mod guide", "feature = \"{name}\"", &[]),
    ("crates/syncguard/src/connect.rs", "it starts with", "\"", " {scheme}:", &[]),
    ("crates/syncguard/README.md", "on the store you have:", ".\n", "{title}", &[Memory]),
    ("crates/syncguard-cli/Cargo.toml", "required-features = [", "]", "\"{name}\"", &[Memory]),
    ("crates/syncguard-cli/Cargo.toml", "\ndefault = [", "]", "\"{name}\"", &[Memory]),
    ("crates/syncguard-cli/README.md", "Locks are on ", ".\n", "{title}", &[Memory, Sqlite]),
    ("crates/syncguard-core/README.md", "on one backend:", "Each gives", "syncguard-{name})", &[]),
    ("crates/syncguard-core/src/contract/capabilities.rs", "backend's short name:", "pub ", "`\"{name}\"`", &[]),
    ("README.md", "It uses the store you have:", ".\n", "{title}", &[Memory]),
    (".github/workflows/ci.yml", "\n  run:\n", "\n  no-servers:", "{name}", &[Memory]),
    (".github/workflows/nightly.yml", "\n  full:\n", "\n  features:", "{name}", &[Memory]),
    ("tests/tests/main.rs", "", "\nmod urls;", "\nmod {module};", &[Memory]),
    ("tests/tests/records_page.rs", "const STORES", "];", "\"{name}\"", &[Memory]),
    (".github/CONTRIBUTING.md", "| `crates/syncguard-memory` |", "| one backend each", "-{name}`", &[Memory]),
    (".github/CONTRIBUTING.md", "Tests start their own servers:", ".", "{title}", &[Memory, Sqlite]),
];

#[test]
fn each_place_names_each_store() {
    let mut missing = Vec::new();
    for (path, after, until, form, left_out) in PLACES {
        let text = read(path);
        let part = text.split_once(after).unwrap_or_else(|| panic!("{path}: no {after:?}")).1;
        let part = part.split_once(until).unwrap_or_else(|| panic!("{path}: no {until:?}")).0;
        for store in Store::ALL.into_iter().filter(|store| !left_out.contains(store)) {
            let form = form.replace("{name}", store.name()).replace("{title}", store.title());
            let form = form.replace("{module}", &store.module());
            let form = form.replace("{scheme}", store.scheme());
            if !part.contains(&form) {
                missing.push(format!("{path}, after {after:?}: no {form:?}"));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// The conformance suite runs on each store.
#[test]
fn each_store_has_its_conformance_tests() {
    for store in Store::ALL {
        let path = match store {
            Memory => "crates/syncguard-conformance/tests/memory.rs".to_owned(),
            store => format!("tests/tests/{}/conformance.rs", store.module()),
        };
        assert!(root().join(&path).is_file(), "{path}");
    }
}

/// Tables that leave out a store which several processes share: a part of their first line, the stores, the reason.
const NOT_IN: &[(&str, &str, &[Store], &str)] = &[
    (
        "production.md",
        "for how long",
        &[Store::ObjectStore],
        "it was not measured on a cloud's bucket",
    ),
    (
        "fencing.md",
        "the data is in",
        &[Etcd],
        "its row says: anything whose versions are new after every write",
    ),
    (
        "from_typescript.md",
        "| | |",
        &[Etcd, Sqlite, Store::ObjectStore],
        "the TypeScript library has no backend for it",
    ),
    (
        "production.md",
        "from, to",
        &[Store::Firestore, Sqlite, Store::ObjectStore],
        "none has a server of a release to upgrade",
    ),
];

/// A table for users that names three stores, in its first line or its first column, names all that processes share.
#[test]
fn each_table_of_stores_has_all_of_them() {
    let guide = "crates/syncguard/src/guide";
    let pages = fs::read_dir(root().join(guide)).expect("the guide").map(|file| {
        format!("{guide}/{}", file.expect("a file").file_name().to_str().expect("a name"))
    });
    let pages = pages.filter(|path| Path::new(path).extension().is_some_and(|it| it == "md"));
    let others = ["README.md", "crates/syncguard-cli/README.md", "crates/syncguard/src/connect.rs"];
    let (mut tables, mut used, mut missing) = (0, vec![false; NOT_IN.len()], Vec::new());
    for path in pages.chain(others.map(str::to_owned)) {
        let text = read(&path);
        let lines: Vec<&str> = text.lines().map(|line| line.trim_start_matches("/// ")).collect();
        let is_row = |line: &&str| line.starts_with('|');
        for table in lines.split(|line| !is_row(line)).filter(|table| table.len() > 2) {
            let column = table[2..].iter().filter_map(|row| row.split('|').nth(1));
            for cells in [table[0].split('|').collect(), column.collect::<Vec<_>>()] {
                let is_named = |store: &Store| cells.iter().any(|cell| names(cell, *store));
                if Store::ALL.iter().filter(|store| is_named(store)).count() < 3 {
                    continue;
                }
                tables += 1;
                for store in Store::ALL.into_iter().filter(|store| store.is_shared()) {
                    let is_left_out = |(file, start, stores, _): &(&str, &str, &[Store], &str)| {
                        path.ends_with(file) && table[0].contains(start) && stores.contains(&store)
                    };
                    match NOT_IN.iter().position(is_left_out) {
                        _ if is_named(&store) => {}
                        Some(reason) => used[reason] = true,
                        None => missing.push(format!("{path}, {}: no {store}", table[0])),
                    }
                }
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
    assert!(tables > 14 && used.iter().all(|used| *used), "{tables} {used:?}");
}

/// True if a cell has the store's name as a word.
fn names(cell: &str, store: Store) -> bool {
    let is_word = |c: char| c.is_alphanumeric() || c == '-' || c == '_';
    cell.split(|c| !is_word(c)).any(|word| word == store.name() || word == store.title())
}
