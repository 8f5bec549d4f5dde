//! The documentation, as docs.rs builds it, and where its links lead.

mod links;

use std::fs;

use anyhow::Result;

use crate::cargo::{cargo, output, root, target, unstable_rustdoc};
use crate::metadata;

pub(super) fn check() -> Result<()> {
    let docs = target().join("doc");
    // As in a fresh clone: what is there already decides where rustdoc makes links lead.
    if docs.exists() {
        fs::remove_dir_all(&docs)?;
    }
    let mut command = cargo(["doc", "--workspace", "--no-deps", "--all-features"]);
    command.env("RUSTDOC", unstable_rustdoc()).env("RUSTDOCFLAGS", "-D warnings --cfg docsrs");
    output(&mut command)?;

    let libraries = metadata::published()?.into_iter().filter(|package| package.is_library);
    let names = libraries.map(|package| package.name).collect();
    links::check(root(), docs, names)
}
