//! Each packed crate for crates.io has all files that it and its tests are compiled from. Its tests have run from the
//! repository.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

use anyhow::{Context as _, Result, bail, ensure};

use crate::cargo::{cargo, output, profiles, root, target};
use crate::metadata::{self, Package};

/// The files of every package, with their source.
const FILES: &[(&str, &str)] = &[
    ("LICENSE-MIT", "LICENSE-MIT"),
    ("LICENSE-APACHE", "LICENSE-APACHE"),
    ("CHANGELOG.md", ".github/CHANGELOG.md"),
];

/// The fields of every manifest. `cargo xtask release-check` asks for `repository`.
const FIELDS: &[&str] = &[
    "description",
    "license",
    "readme",
    "documentation",
    "keywords",
    "categories",
    "rust_version",
];

pub(super) fn check() -> Result<()> {
    let packages = metadata::published()?;
    let missing: Vec<String> = packages.iter().flat_map(missing_fields).collect();
    if !missing.is_empty() {
        bail!("{}", missing.join("\n"));
    }

    let workspace = unpacked()?;
    for package in &packages {
        complete(&workspace.join(folder(package)))?;
    }
    fs::write(workspace.join("Cargo.toml"), manifest(&packages))?;
    // The same versions as in all other tests.
    fs::copy(root().join("Cargo.lock"), workspace.join("Cargo.lock"))?;

    // All crates in one run: `ci clippy` compiles each crate with its own features alone.
    let mut compile = cargo(["check", "--workspace", "--all-targets", "--all-features"]);
    compile.arg("--config").arg(profiles()?);
    output(compile.current_dir(&workspace).env("CARGO_TARGET_DIR", target())).map(drop)
}

/// The folder with all packed crates. They are packed once in the life of this process.
pub(crate) fn unpacked() -> Result<PathBuf> {
    static DONE: Mutex<bool> = Mutex::new(false);
    let mut is_done = DONE.lock().unwrap_or_else(PoisonError::into_inner);
    let into = target().join("packed");
    if !*is_done {
        unpack(&metadata::published()?, &into)?;
        *is_done = true;
    }
    Ok(into)
}

fn missing_fields(package: &Package) -> Vec<String> {
    let said = |field: &str| match &package.manifest[field] {
        serde_json::Value::Array(list) => !list.is_empty(),
        field => field.is_string(),
    };
    let missing = FIELDS.iter().filter(|field| !said(field));
    missing.map(|field| format!("{}: no {field} in its manifest", package.name)).collect()
}

/// Packs and unpacks the crates, side by side.
fn unpack(packages: &[Package], into: &Path) -> Result<()> {
    let mut pack = cargo(["package", "--no-verify", "--allow-dirty"]);
    for package in packages {
        pack.args(["-p", &package.name]);
    }
    output(&mut pack)?;
    if into.exists() {
        fs::remove_dir_all(into)?;
    }
    fs::create_dir_all(into)?;
    for package in packages {
        let packed = target().join("package").join(folder(package) + ".crate");
        let mut tar = Command::new("tar");
        // Files with the time stamps of the package would be taken for files of an earlier run.
        output(tar.arg("-xzmf").arg(packed).arg("-C").arg(into))?;
    }
    Ok(())
}

/// A file that is packed as a link, or with another text, would not be the file that its reader expects.
fn complete(package: &Path) -> Result<()> {
    for (name, source) in FILES {
        let packed = fs::read_to_string(package.join(name))
            .with_context(|| format!("{} has no {name}", package.display()))?;
        let ours = fs::read_to_string(root().join(source))?;
        ensure!(packed == ours, "{}: its {name} is not {source}", package.display());
    }
    let readme = fs::read_to_string(package.join("README.md"))?;
    ensure!(readme.starts_with("# "), "{}: its README.md has no title", package.display());
    Ok(())
}

/// Each crate gets the others in their packed form.
fn manifest(packages: &[Package]) -> String {
    let folders: Vec<_> = packages.iter().map(|package| format!("{:?}", folder(package))).collect();
    format!(
        "[workspace]\nresolver = \"3\"\nmembers = [{}]\n\n{}",
        folders.join(", "),
        patches(packages, Path::new(""))
    )
}

/// The lines of a manifest that take the packages from this folder.
pub(crate) fn patches(packages: &[Package], from: &Path) -> String {
    let line = |package: &Package| {
        format!("{} = {{ path = \"{}\" }}\n", package.name, from.join(folder(package)).display())
    };
    format!("[patch.crates-io]\n{}", packages.iter().map(line).collect::<String>())
}

fn folder(package: &Package) -> String {
    format!("{}-{}", package.name, package.version())
}
