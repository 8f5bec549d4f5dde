//! Lints for the whole workspace with all features, and for each published package with fewer. In a run of the
//! workspace, other packages turn on the features that a package lacks.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::cargo::{cargo, output};
use crate::metadata::{self, Package};

pub(super) struct Run {
    /// `None` stands for all packages, with all features.
    package: Option<String>,
    features: Option<&'static str>,
}

/// A run for the workspace, and in a full check one for each published package and set of features: none and default,
/// without equal sets.
pub(super) fn runs(is_full: bool) -> Result<Vec<Run>> {
    let mut runs = vec![Run { package: None, features: Some("--all-features") }];
    if !is_full {
        return Ok(runs);
    }
    for package in metadata::published()? {
        for features in feature_sets(&package) {
            runs.push(Run { package: Some(package.name.clone()), features });
        }
    }
    Ok(runs)
}

impl Run {
    pub(super) fn name(&self) -> String {
        let package = self.package.as_deref().unwrap_or("workspace");
        format!("clippy {package} {}", self.features.unwrap_or_default()).trim_end().to_owned()
    }

    pub(super) fn check(&self) -> Result<()> {
        // Its dependencies have runs of their own.
        let mut command = cargo(["clippy", "--quiet", "--no-deps"]);
        match &self.package {
            // Without tests, because their dependencies turn on features, too.
            Some(package) => command.args(["-p", package]),
            None => command.args(["--workspace", "--all-targets"]),
        };
        output(command.args(self.features).args(["--", "-D", "warnings"])).map(drop)
    }
}

/// `None` stands for the default features.
fn feature_sets(package: &Package) -> Vec<Option<&'static str>> {
    let by_default = turned_on_by_default(package);
    let all: BTreeSet<&str> =
        package.features.keys().map(String::as_str).filter(|name| *name != "default").collect();
    let mut sets = Vec::new();
    if !by_default.is_empty() {
        sets.push(Some("--no-default-features"));
    }
    if by_default != all {
        sets.push(None);
    }
    sets
}

fn turned_on_by_default(package: &Package) -> BTreeSet<&str> {
    let mut on = BTreeSet::new();
    let mut open = vec!["default"];
    while let Some(name) = open.pop() {
        for other in package.features.get(name).into_iter().flatten() {
            // The other names are of dependencies: "dep:serde", "tokio/net".
            if package.features.contains_key(other) && on.insert(other.as_str()) {
                open.push(other);
            }
        }
    }
    on
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sets(features: &[(&str, &[&str])]) -> Vec<Option<&'static str>> {
        let on = |list: &[&str]| list.iter().map(|name| (*name).to_owned()).collect();
        feature_sets(&Package {
            name: "p".to_owned(),
            features: features.iter().map(|(name, list)| ((*name).to_owned(), on(list))).collect(),
            is_library: true,
            manifest: serde_json::Value::Null,
        })
    }

    #[test]
    fn runs_no_set_of_features_twice() {
        let none = Some("--no-default-features");
        assert_eq!(sets(&[]), []);
        assert_eq!(sets(&[("default", &[])]), []);
        assert_eq!(sets(&[("default", &[]), ("a", &["dep:x"])]), [None]);
        assert_eq!(sets(&[("default", &["a"]), ("a", &["b"]), ("b", &[])]), [none]);
        assert_eq!(sets(&[("default", &["a"]), ("a", &["x/y"]), ("b", &[])]), [none, None]);
    }
}
