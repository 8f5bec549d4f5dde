//! Cargo's metadata of the workspace's packages.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde_json::Value;

use crate::cargo::{cargo, output};

pub(crate) struct Package {
    pub(crate) name: String,
    /// Each feature with the features that it turns on.
    pub(crate) features: BTreeMap<String, Vec<String>>,
    /// Returns true if the package has a library.
    pub(crate) is_library: bool,
    /// The complete metadata of the package.
    pub(crate) manifest: Value,
}

/// The packages of the workspace that are for crates.io.
pub(crate) fn published() -> Result<Vec<Package>> {
    // The other packages have an empty list of registries in `publish`.
    Ok(packages()?.into_iter().filter(|package| package.manifest["publish"].is_null()).collect())
}

/// The packages of the workspace.
pub(crate) fn packages() -> Result<Vec<Package>> {
    let text = output(&mut cargo(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    packages.iter().map(Package::parse).collect()
}

impl Package {
    pub(crate) fn version(&self) -> &str {
        self.manifest["version"].as_str().unwrap_or_default()
    }

    fn parse(package: &Value) -> Result<Self> {
        let name = package["name"].as_str().context("a package without a name")?.to_owned();
        let features = package["features"].as_object().into_iter().flatten();
        let targets = || package["targets"].as_array().into_iter().flatten();
        Ok(Self {
            name,
            features: features.map(|(name, on)| (name.clone(), strings(on))).collect(),
            is_library: targets().any(|target| strings(&target["kind"]) == ["lib"]),
            manifest: package.clone(),
        })
    }
}

fn strings(list: &Value) -> Vec<String> {
    let items = list.as_array().into_iter().flatten();
    items.filter_map(|item| Some(item.as_str()?.to_owned())).collect()
}
