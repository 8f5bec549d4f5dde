//! The documentation, built as on docs.rs, and its links.

mod links;

use std::fs;

use anyhow::Result;

use crate::cargo::{cargo, output, root, target, unstable_rustdoc};
use crate::metadata;

pub(super) fn check() -> Result<()> {
    let docs = target().join("doc");
    // Starts without old output, as in a fresh clone, because existing pages decide where rustdoc's links lead.
    if docs.exists() {
        fs::remove_dir_all(&docs)?;
    }
    // Libraries alone: the pages of the command would stand among those of the facade, which has its name.
    let mut command = cargo(["doc", "--workspace", "--lib", "--no-deps", "--all-features"]);
    command.env("RUSTDOC", unstable_rustdoc()).env("RUSTDOCFLAGS", "-D warnings --cfg docsrs");
    output(&mut command)?;

    let libraries = metadata::published()?.into_iter().filter(|package| package.is_library);
    let names = libraries.map(|package| package.name).collect();
    links::check(root(), docs, names)
}
