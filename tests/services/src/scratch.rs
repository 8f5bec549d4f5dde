//! The folders of servers, all below one folder for each process, which the watchdog removes at the end.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use anyhow::{Context as _, Result};
use tempfile::TempDir;

use crate::watchdog;

/// A new folder, removed when the value is dropped, or else when the process ends.
pub(crate) fn folder(name: &str) -> Result<TempDir> {
    tempfile::Builder::new()
        .prefix(&format!("{name}-"))
        .tempdir_in(watchdog::root()?)
        .with_context(|| format!("cannot create a folder for {name}"))
}

/// A new folder for this process.
pub(crate) fn create_root() -> Result<PathBuf> {
    let root = tempfile::Builder::new()
        .prefix("syncguard-services-")
        .tempdir()
        .context("cannot create a temporary folder")?
        .keep();
    // PostgreSQL runs as another user if this process is root, and has to reach its folder.
    fs::set_permissions(&root, Permissions::from_mode(0o711))?;
    Ok(root)
}
