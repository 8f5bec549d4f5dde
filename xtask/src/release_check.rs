//! `cargo xtask release-check`: reports what a release still lacks.

use std::fs;
use std::path::Path;
use std::process::ExitCode;

use anyhow::{Context as _, Result};
use clap::Args;

use crate::cargo::root;
use crate::metadata::{self, Package};

#[derive(Args)]
pub(crate) struct Options {
    /// The tag that is to be released, as in v1.2.3
    #[arg(long)]
    tag: Option<String>,
}

pub(crate) fn run(options: &Options) -> Result<ExitCode> {
    let packages = metadata::published()?;
    let version = packages.first().context("nothing is published")?.version();
    let changelog = read(&root().join(".github/CHANGELOG.md"))?;

    let mut missing = Vec::new();
    for package in &packages {
        missing.extend(missing_in(package, version));
        missing.extend(outdated_snippets(package, version)?);
    }
    missing.extend(missing_entry(&changelog, version));
    if let Some(tag) = options.tag.as_ref().filter(|tag| tag[..] != format!("v{version}")) {
        missing.push(format!("the tag is {tag}, but the version is {version}"));
    }

    if missing.is_empty() {
        println!("version {version} of {} crates can be released", packages.len());
        return Ok(ExitCode::SUCCESS);
    }
    println!("version {version} cannot be released:\n  {}", missing.join("\n  "));
    Ok(ExitCode::FAILURE)
}

fn missing_in(package: &Package, version: &str) -> Vec<String> {
    let mut missing = Vec::new();
    if !package.manifest["repository"].is_string() {
        missing.push(format!(
            "{}: no `repository`; it stands in the workspace's Cargo.toml, and each crate has \
             `repository.workspace = true`",
            package.name
        ));
    }
    if package.version() != version {
        missing.push(format!("{}: its version is {}", package.name, package.version()));
    }
    missing
}

/// The version has an entry with a date and some text: "## 1.2.3 - 2026-01-31".
fn missing_entry(changelog: &str, version: &str) -> Option<String> {
    let mut entries = changelog.split("\n## ").skip(1);
    let Some(entry) = entries.find(|entry| entry.split([' ', '\n']).next() == Some(version)) else {
        return Some(format!("CHANGELOG.md: no entry for {version}"));
    };
    let (title, text) = entry.split_once('\n').unwrap_or((entry, ""));
    let date = title.split_once(" - ").map_or("", |(_, date)| date);
    let digits = date.chars().map(|c| if c.is_ascii_digit() { '0' } else { c });
    if digits.collect::<String>() != "0000-00-00" {
        return Some(format!("CHANGELOG.md: the entry for {version} has no date: {title:?}"));
    }
    text.trim().is_empty().then(|| format!("CHANGELOG.md: the entry for {version} is empty"))
}

/// The lines that readers copy into their manifests name this version.
fn outdated_snippets(package: &Package, version: &str) -> Result<Vec<String>> {
    let folder = root().join("crates").join(&package.name);
    let current = version.rsplit_once('.').map_or(version, |(minor, _)| minor);
    let mut outdated = Vec::new();
    // The front page of a crate without a library is its README.
    let files: &[_] =
        if package.is_library { &["README.md", "src/lib.rs"] } else { &["README.md"] };
    for file in files {
        for line in read(&folder.join(file))?.lines() {
            if versions(line).any(|version| version != current) {
                outdated.push(format!("{}/{file}: another version in {line:?}", package.name));
            }
        }
    }
    Ok(outdated)
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))
}

/// The versions in lines like `syncguard = "0.1"` and `syncguard-redis = { version = "0.1", … }`.
fn versions(line: &str) -> impl Iterator<Item = &str> {
    line.split("syncguard").skip(1).filter_map(|rest| {
        let (name, value) = rest.split_once(" = ")?;
        let value = value.strip_prefix("{ version = ").unwrap_or(value);
        let plain = name.chars().all(|c| c == '-' || c.is_ascii_lowercase());
        plain.then(|| value.strip_prefix('"')?.split('"').next())?
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn package(manifest: serde_json::Value) -> Package {
        let name = "syncguard-x".to_owned();
        Package { name, features: [].into(), is_library: true, manifest }
    }

    #[test]
    fn refuses_a_crate_without_a_repository_or_with_another_version() {
        let whole = json!({ "version": "0.2.0", "repository": "https://example.com" });
        assert_eq!(missing_in(&package(whole.clone()), "0.2.0"), [""; 0]);
        assert!(missing_in(&package(whole), "0.3.0")[0].contains("its version is 0.2.0"));
        let homeless = json!({ "version": "0.2.0", "repository": null });
        assert!(missing_in(&package(homeless), "0.2.0")[0].contains("no `repository`"));
    }

    #[test]
    fn refuses_a_changelog_without_a_dated_entry() {
        let said = |text: &str| missing_entry(text, "0.2.0").unwrap_or_default();
        assert_eq!(said("# Changelog\n\n## 0.2.0 - 2026-01-31\n\n- New.\n\n## 0.1.0 - x\n"), "");
        assert!(said("# Changelog\n\n## 0.2.01 - 2026-01-31\n\n- New.\n").contains("no entry"));
        assert!(said("# Changelog\n\n## 0.2.0 - unreleased\n\n- New.\n").contains("no date"));
        assert!(said("# Changelog\n\n## 0.2.0\n\n- New.\n").contains("no date"));
        assert!(said("\n## 0.2.0 - 2026-01-31\n\n## 0.1.0 - x\n\n- Old.\n").contains("is empty"));
    }

    #[test]
    fn reads_the_front_pages_of_each_kind_of_crate() -> Result<()> {
        let of = |name: &str, is_library| {
            let package = Package { name: name.to_owned(), is_library, ..package(json!({})) };
            outdated_snippets(&package, "0.1.0")
        };
        assert_eq!(of("syncguard-cli", false)?, [""; 0]);
        assert_eq!(of("syncguard-core", true)?, [""; 0]);
        let error = of("syncguard-none", true).expect_err("there is no such crate").to_string();
        assert!(error.ends_with("crates/syncguard-none/README.md"), "{error}");
        Ok(())
    }

    #[test]
    fn reads_the_versions_that_readers_copy() {
        let read = |line| versions(line).collect::<Vec<_>>();
        assert_eq!(read(r#"syncguard = "0.1""#), ["0.1"]);
        let line =
            r#"| x | `syncguard-redis = { version = "0.2", features = [] }`, `syncguard = "3"` |"#;
        assert_eq!(read(line), ["0.2", "3"]);
        assert_eq!(read(r#"use syncguard::lock; let x = "0.1";"#), [""; 0]);
    }
}
