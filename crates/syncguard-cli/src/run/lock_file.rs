//! The file that holds the locks, if the store is a file.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// The identity of the file when the lock was acquired.
pub(super) struct LockFile {
    path: PathBuf,
    /// The numbers of the device and the inode.
    id: (u64, u64),
}

impl LockFile {
    pub(super) fn at(path: PathBuf) -> Option<Self> {
        let id = id(&path)?;
        Some(Self { path, id })
    }

    /// Explains why the lock can no longer be renewed, if the file is gone or was replaced.
    pub(super) fn problem(&self) -> Option<String> {
        let path = self.path.display();
        match id(&self.path) {
            Some(id) if id == self.id => None,
            Some(_) => Some(format!("its lock file {path} was replaced by another one")),
            None => Some(format!("its lock file {path} is gone: it was deleted or moved away")),
        }
    }
}

fn id(path: &PathBuf) -> Option<(u64, u64)> {
    fs::metadata(path).ok().map(|found| (found.dev(), found.ino()))
}
