//! The Rust version that a crate states is new enough for all its dependencies, and its README states the same
//! version.

use std::collections::HashMap;
use std::fs;

use anyhow::{Context as _, Result, bail, ensure};
use serde_json::Value;

use crate::cargo::{cargo, output, root};
use crate::metadata::{self, Package};

/// Features that need a newer Rust than their crate states, because they bring a crate that states a newer one.
/// Cargo's error then names it, and the README names the version.
const NEWER: &[(&str, &[&str])] = &[("syncguard", &["firestore"])];

/// Name and version of a package, as in a line of `cargo tree`: "serde v1.0.0".
type Id = String;

pub(super) fn check() -> Result<()> {
    let stated = stated()?;
    let mut broken = Vec::new();
    for package in metadata::published()? {
        let own = package.manifest["rust_version"].as_str();
        let own = own.with_context(|| format!("{} states no Rust version", package.name))?;
        let readme = root().join("crates").join(&package.name).join("README.md");
        let text = fs::read_to_string(&readme).with_context(|| format!("{}", readme.display()))?;
        if !text.contains(&format!("Rust {own} or later")) {
            broken.push(format!("{}: does not say `Rust {own} or later`", readme.display()));
        }
        broken.extend(too_new(&package.name, own, &tree(&package)?, &stated)?);
    }
    if !broken.is_empty() {
        bail!("{}", broken.join("\n"));
    }
    Ok(())
}

/// The Rust version that each package of the whole graph states.
fn stated() -> Result<HashMap<Id, String>> {
    let text =
        output(&mut cargo(["metadata", "--format-version=1", "--locked", "--all-features"]))?;
    let metadata: Value = serde_json::from_str(&text).context("cargo metadata")?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let ids = packages.iter().filter_map(|package| {
        let id = format!("{} v{}", package["name"].as_str()?, package["version"].as_str()?);
        Some((id, package["rust_version"].as_str()?.to_owned()))
    });
    Ok(ids.collect())
}

/// The packages that this one builds with for its users, on any system, with all features, which include the default
/// ones.
fn tree(package: &Package) -> Result<String> {
    let newer = NEWER.iter().find(|(name, _)| *name == package.name).map_or(&[][..], |(_, f)| f);
    let features: Vec<&str> = package.features.keys().map(String::as_str).collect();
    let unknown = newer.iter().find(|feature| !features.contains(feature));
    ensure!(unknown.is_none(), "{} has no feature {unknown:?}", package.name);
    let features: Vec<&str> =
        features.into_iter().filter(|feature| !newer.contains(feature)).collect();

    let mut command = cargo(["tree", "--locked", "--target=all", "--prefix=none", "--format={p}"]);
    command.args(["-e", "normal,build", "-p", &package.name, "--no-default-features"]);
    output(command.args(["--features", &features.join(",")]))
}

/// The packages of a tree, one in each line, that need a newer Rust than `own`.
fn too_new(
    package: &str,
    own: &str,
    tree: &str,
    stated: &HashMap<Id, String>,
) -> Result<Vec<String>> {
    let own_version = version(own)?;
    let mut found = Vec::new();
    for line in tree.lines() {
        let id = line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let Some(needed) = stated.get(&id) else { continue };
        if version(needed)? > own_version {
            found.push(format!("{package} states Rust {own}, but {id} needs {needed}"));
        }
    }
    found.sort();
    found.dedup();
    Ok(found)
}

/// "1.88" and "1.88.0" are one version.
fn version(text: &str) -> Result<[u32; 3]> {
    let mut numbers = [0; 3];
    ensure!(text.split('.').count() <= numbers.len(), "no Rust version: {text:?}");
    for (number, part) in numbers.iter_mut().zip(text.split('.')) {
        *number = part.parse().with_context(|| format!("no Rust version: {text:?}"))?;
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_each_package_that_needs_a_newer_rust() -> Result<()> {
        let stated = [("a v1.0.0", "1.88.0"), ("b v1.0.0", "1.9"), ("c v2.0.0", "1.88.1")];
        let stated = stated.map(|(id, needed)| (id.to_owned(), needed.to_owned())).into();
        let tree = "p v0.1.0 (/p)\na v1.0.0\nb v1.0.0 (*)\nc v2.0.0 (proc-macro)\nc v2.0.0 (*)\nc v3.0.0\n";
        assert_eq!(too_new("p", "1.88.1", tree, &stated)?, [""; 0]);
        let found = too_new("p", "1.88", tree, &stated)?;
        assert_eq!(found, ["p states Rust 1.88, but c v2.0.0 needs 1.88.1"]);
        assert_eq!(too_new("p", "1.8", tree, &stated)?.len(), 3);
        Ok(())
    }

    #[test]
    fn reads_versions_with_two_and_three_numbers() -> Result<()> {
        assert_eq!(version("1.88")?, version("1.88.0")?);
        assert!(version("1.91")? > version("1.88.9")?);
        assert!(version("1.100")? > version("1.91")?);
        for wrong in ["", "1.x", "1.2.3.4", "nightly"] {
            assert!(version(wrong).is_err(), "{wrong}");
        }
        Ok(())
    }
}
