//! Lints for each package on its own features: in the workspace they hide behind what others turn
//! on.

use std::collections::BTreeSet;

use anyhow::Result;

use crate::cargo::{cargo, output};
use crate::metadata::{self, Package};

pub(super) struct Run {
    package: String,
    features: Option<&'static str>,
}

/// A run for each package and set of features: none, default, all, without those that are the same.
pub(super) fn runs() -> Result<Vec<Run>> {
    let mut runs = Vec::new();
    for package in metadata::packages()? {
        for features in feature_sets(&package) {
            runs.push(Run { package: package.name.clone(), features });
        }
    }
    Ok(runs)
}

impl Run {
    pub(super) fn name(&self) -> String {
        format!("clippy {} {}", self.package, self.features.unwrap_or_default())
            .trim_end()
            .to_owned()
    }

    pub(super) fn check(&self) -> Result<()> {
        // The packages it depends on have runs of their own.
        let mut command = cargo(["clippy", "--quiet", "--no-deps", "--all-targets"]);
        command.args(["-p", &self.package]);
        output(command.args(self.features).args(["--", "-D", "warnings"])).map(drop)
    }
}

/// `None` stands for the default features.
fn feature_sets(package: &Package) -> Vec<Option<&'static str>> {
    let by_default = turned_on_by_default(package);
    let all: BTreeSet<&str> =
        package.features.keys().map(String::as_str).filter(|name| *name != "default").collect();
    let mut sets = vec![None];
    if !by_default.is_empty() {
        sets.insert(0, Some("--no-default-features"));
    }
    if by_default != all {
        sets.push(Some("--all-features"));
    }
    sets
}

fn turned_on_by_default(package: &Package) -> BTreeSet<&str> {
    let mut on = BTreeSet::new();
    let mut open = vec!["default"];
    while let Some(name) = open.pop() {
        for other in package.features.get(name).into_iter().flatten() {
            // The others are of a dependency: "dep:serde", "tokio/net".
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
        let (none, all) = (Some("--no-default-features"), Some("--all-features"));
        assert_eq!(sets(&[]), [None]);
        assert_eq!(sets(&[("default", &[])]), [None]);
        assert_eq!(sets(&[("default", &[]), ("a", &["dep:x"])]), [None, all]);
        assert_eq!(sets(&[("default", &["a"]), ("a", &["b"]), ("b", &[])]), [none, None]);
        assert_eq!(sets(&[("default", &["a"]), ("a", &["x/y"]), ("b", &[])]), [none, None, all]);
    }
}
