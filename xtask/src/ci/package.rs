//! The crates as users get them: each packed crate has all files that it is compiled from, and a new user's project outside
//! of the workspace builds on them and takes its first lock.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use crate::cargo::{cargo, output, profiles, root, target};

/// Programs of a new user, with what they say in the end.
const PROGRAMS: [(&str, &str); 2] =
    [("facade", "still ours: true"), ("from_typescript", "locked under fence 000000000000001")];

pub(super) fn check() -> Result<()> {
    let packages = published()?;
    let into = target().join("packed");
    unpack(&packages, &into)?;
    for package in &packages {
        package.check_pages(&into.join(package.folder()))?;
    }
    let members: Vec<_> =
        packages.iter().map(|package| format!("{:?}", package.folder())).collect();
    let workspace =
        format!("[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n", members.join(", "));
    fs::write(into.join("Cargo.toml"), workspace + &patches(&packages, Path::new("")))?;
    // The same versions as in all other tests.
    fs::copy(root().join("Cargo.lock"), into.join("Cargo.lock"))?;
    let mut compile = cargo(["check", "-q", "--workspace", "--all-features"]);
    compile.arg("--config").arg(profiles()?);
    output(compile.current_dir(&into).env("CARGO_TARGET_DIR", target()))?;
    fresh_project(&patches(&packages, &into))
}

struct Package {
    name: String,
    version: String,
    rust_version: String,
}

/// The packages for crates.io. The others have an empty list of registries in `publish`.
fn published() -> Result<Vec<Package>> {
    let text = output(&mut cargo(["metadata", "--format-version=1", "--no-deps"]))?;
    let metadata: Value = serde_json::from_str(&text)?;
    let all = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let package = |package: &Value| {
        let text = |field: &str| {
            let text = package[field].as_str().map(str::to_owned);
            text.with_context(|| format!("{}: no {field}", package["name"]))
        };
        Ok(Package {
            name: text("name")?,
            version: text("version")?,
            rust_version: text("rust_version")?,
        })
    };
    all.iter().filter(|package| package["publish"].is_null()).map(package).collect()
}

impl Package {
    fn folder(&self) -> String {
        format!("{}-{}", self.name, self.version)
    }

    /// The packed licences are the texts and no links. The README names the oldest Rust, and the current version where
    /// readers copy a dependency.
    fn check_pages(&self, packed: &Path) -> Result<()> {
        for name in ["LICENSE-MIT", "LICENSE-APACHE"] {
            let text = fs::read_to_string(packed.join(name)).context(name)?;
            ensure!(
                text == fs::read_to_string(root().join(name))?,
                "{}: another {name}",
                self.name
            );
        }
        let readme = fs::read_to_string(packed.join("README.md"))?;
        let rust = format!("Rust {} or later", self.rust_version);
        ensure!(readme.contains(&rust), "{}: the README does not say `{rust}`", self.name);
        let current = self.version.rsplit_once('.').map_or("", |(minor, _)| minor);
        for version in versions(&readme) {
            ensure!(version == current, "{}: the README says version {version:?}", self.name);
        }
        Ok(())
    }
}

/// The versions in `syncguard = "0.1"` and `syncguard-redis = { version = "0.1", … }`.
fn versions(text: &str) -> impl Iterator<Item = &str> {
    text.split("syncguard").skip(1).filter_map(|rest| {
        let (name, value) = rest.lines().next()?.split_once(" = ")?;
        let value = value.strip_prefix("{ version = ").unwrap_or(value);
        let is_name = name.chars().all(|c| c == '-' || c.is_ascii_lowercase());
        is_name.then(|| value.strip_prefix('"')?.split('"').next())?
    })
}

fn unpack(packages: &[Package], into: &Path) -> Result<()> {
    let mut pack = cargo(["package", "--no-verify", "--allow-dirty"]);
    pack.args(packages.iter().flat_map(|package| ["-p", &package.name]));
    output(&mut pack)?;
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    for package in packages {
        let packed = target().join("package").join(package.folder() + ".crate");
        // Files with the time stamps of the package would be taken for files of an earlier run.
        output(Command::new("tar").arg("-xzmf").arg(packed).arg("-C").arg(into))?;
    }
    Ok(())
}

/// The lines of a manifest that take the packages from this folder.
fn patches(packages: &[Package], from: &Path) -> String {
    let line = |package: &Package| {
        format!("{} = {{ path = \"{}\" }}\n", package.name, from.join(package.folder()).display())
    };
    format!("[patch.crates-io]\n{}", packages.iter().map(line).collect::<String>())
}

/// A project with the manifest that `cargo new` and `cargo add` would have written. It builds without warnings.
fn fresh_project(patches: &str) -> Result<()> {
    // Outside of any folder with a workspace.
    let folder = tempfile::Builder::new().prefix("syncguard-fresh-").tempdir()?;
    let bin: PathBuf = folder.path().join("src/bin");
    fs::create_dir_all(&bin)?;
    let manifest = "[package]\nname = \"fresh\"\nversion = \"0.1.0\"\nedition = \"2024\"\n\n[dependencies]\n\
                    tokio = { version = \"1\", features = [\"macros\", \"rt-multi-thread\"] }\nsyncguard = \"0.1\"\n\n";
    fs::write(folder.path().join("Cargo.toml"), manifest.to_owned() + patches)?;
    fs::copy(root().join("Cargo.lock"), folder.path().join("Cargo.lock"))?;
    for (program, _) in PROGRAMS {
        let file = format!("{program}.rs");
        fs::copy(root().join("xtask/fresh").join(&file), bin.join(&file))?;
    }
    for (program, says) in PROGRAMS {
        let mut run = cargo(["run", "-q", "--bin", program, "--", "memory:", "fresh"]);
        run.current_dir(&folder).env("CARGO_TARGET_DIR", target().join("fresh"));
        let run = run.env("RUSTFLAGS", "-D warnings").env_remove("CARGO_MANIFEST_DIR");
        let said = output(run)?;
        ensure!(said.contains(says), "{program} does not say {says:?}:\n{said}");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_versions_that_readers_copy() {
        let text = "x `syncguard-redis = { version = \"0.2\", features = [] }`, `syncguard = \"3\"`\n\
                    use syncguard::lock; let x = \"0.1\";";
        assert_eq!(versions(text).collect::<Vec<_>>(), ["0.2", "3"]);
    }
}
