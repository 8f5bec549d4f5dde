//! The file that the locks are in, where the store is one.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::PathBuf;

/// A file as it was when the lock was taken.
pub(super) struct LockFile {
    path: PathBuf,
    /// Its device, and its number there.
    id: (u64, u64),
}

impl LockFile {
    pub(super) fn at(path: PathBuf) -> Option<Self> {
        let id = id(&path)?;
        Some(Self { path, id })
    }

    /// The reason why nothing can be renewed in it any more, if there is one to see.
    pub(super) fn trouble(&self) -> Option<String> {
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
