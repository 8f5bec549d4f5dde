//! The guide's page "From TypeScript" names everything, and gives each name a counterpart.
//!
//! That the counterparts exist is checked by rustdoc, because each of them is a link.

use std::collections::BTreeSet;

const PAGE: &str = include_str!("../src/guide/from_typescript.md");
const NAMES: &str = include_str!("fixtures/typescript-names.txt");

/// How a cell says that there is no counterpart.
const NOT_NEEDED: &str = "not needed, because ";

/// The rows of the tables with the columns TypeScript and Rust.
fn rows(page: &str) -> Vec<(&str, &str)> {
    let mut rows = Vec::new();
    let mut inside = false;
    for line in page.lines() {
        let cells = line.strip_prefix("| ").and_then(|line| line.strip_suffix(" |"));
        match cells.and_then(|cells| cells.split_once(" | ")) {
            Some(("TypeScript", "Rust")) => inside = true,
            Some(row) if inside => rows.push(row),
            _ => inside &= line.starts_with('|'),
        }
    }
    rows
}

fn names() -> BTreeSet<&'static str> {
    NAMES.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).collect()
}

/// A name of TypeScript in Rust's spelling; an option is `with_` it.
fn in_rust(name: &str) -> [String; 2] {
    if let Some(code) = name.strip_prefix('"') {
        let variant = format!("ErrorCode::{}", code.trim_end_matches('"'));
        return [variant.clone(), variant];
    }
    let name = name.strip_suffix("Ms").unwrap_or(name).replace("BackendOptions", "Options");
    let (owner, member) = name.split_once('.').unwrap_or(("", &name));
    let member = if member.starts_with(char::is_lowercase) {
        let parted = |c: char| c.is_uppercase().then_some('_').into_iter().chain([c]);
        member.chars().flat_map(parted).collect::<String>().to_lowercase()
    } else {
        member.to_owned()
    };
    match owner {
        "" => [member.clone(), member],
        owner => [format!("{owner}::{member}"), format!("{owner}::with_{member}")],
    }
}

/// The names that the page lists as the same in both, without their modules.
fn listed(page: &str) -> BTreeSet<&str> {
    let paragraph = page.split("\n\n").find(|part| part.starts_with("[`"));
    let links = paragraph.unwrap_or_default().split("[`").skip(1);
    let paths = links.filter_map(|link| link.split_once("`]")).map(|(path, _)| path);
    let modules = ["redis::", "postgres::", "firestore::", "telemetry::"];
    let bare = |path| modules.iter().find_map(|module| str::strip_prefix(path, module));
    paths.map(|path| bare(path).unwrap_or(path).trim_end_matches("()")).collect()
}

#[test]
fn every_name_has_one_row_or_is_listed_and_there_are_no_others() {
    let in_rows: Vec<&str> = rows(PAGE).iter().map(|(name, _)| name.trim_matches('`')).collect();
    let once: BTreeSet<&str> = in_rows.iter().copied().collect();
    assert_eq!(in_rows.len(), once.len(), "a name has two rows");
    let mut listed = listed(PAGE);
    let mut is_listed = |name| in_rust(name).iter().any(|rust| listed.remove(rust.as_str()));
    let names = names();
    let missing: Vec<_> =
        names.iter().filter(|name| !once.contains(*name) && !is_listed(name)).collect();
    let unknown: Vec<_> = once.difference(&names).chain(&listed).collect();
    assert!(missing.is_empty() && unknown.is_empty(), "missing {missing:?}, unknown {unknown:?}");
    assert!(once.len() > 60, "only {} rows were read", once.len());
}

#[test]
fn every_row_links_to_a_counterpart_or_says_why_there_is_none() {
    for (name, rust) in rows(PAGE) {
        let says_why = rust.strip_prefix(NOT_NEEDED).is_some_and(|why| !why.trim().is_empty());
        assert!(rust.contains("[`") || says_why, "{name}: {rust}");
        // A name in backticks without a link would not be checked by rustdoc.
        let unlinked = rust.contains("::") && !rust.contains("[`");
        assert!(!unlinked, "{name}: {rust}");
    }
}

#[test]
fn the_page_names_the_unicode_version_of_keys() {
    let (major, minor, _) = syncguard::Key::UNICODE_VERSION;
    let named = format!("here Unicode {major}.{minor} ");
    assert!(PAGE.contains(&named), "the page does not say {named:?}");
}

#[test]
fn tables_are_told_from_text() {
    let page =
        "| a | b |\n|---|---|\n| TypeScript | Rust |\n|---|---|\n| `x` | [`X`] |\n\n| `y` | z |\n";
    assert_eq!(rows(page), [("`x`", "[`X`]")]);
}
