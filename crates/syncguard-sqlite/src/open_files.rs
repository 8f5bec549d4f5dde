//! The three files that SQLite has open: the database and two files beside it.

use std::fs::{self, Metadata};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use syncguard_core::LockError;

use crate::error::{moved, unseen};
use crate::file::LockFile;

/// The open files, with their paths and identities.
#[derive(Debug)]
pub(crate) struct OpenFiles([(PathBuf, Identity); 3]);

/// Distinguishes files of the same name. While a file is open, no other file has the same identity.
#[cfg(unix)]
type Identity = (u64, u64);
#[cfg(not(unix))]
type Identity = ();

impl OpenFiles {
    /// Records the identities of the files. Call it while SQLite has the files open.
    pub(crate) fn of(file: &LockFile) -> Result<Self, LockError> {
        let beside = |suffix| {
            let mut name = file.path.clone().into_os_string();
            name.push(suffix);
            let path = PathBuf::from(name);
            let metadata = fs::metadata(&path).map_err(|_| moved())?;
            Ok::<_, LockError>((path, identity(&metadata)))
        };
        let database = (file.path.clone(), identity(&file.metadata));
        let files = Self([database, beside("-wal")?, beside("-shm")?]);
        files.check()?;
        Ok(files)
    }

    /// The path of the log.
    pub(crate) fn log(&self) -> &Path {
        let Self([_, (log, _), _]) = self;
        log
    }

    /// Checks that the files are still in their places, and returns the size of the log. If a file is not,
    /// other processes may open another file there, with other locks in it.
    ///
    /// # Errors
    ///
    /// `Internal` if a file was deleted or replaced; `ServiceUnavailable` if that cannot be seen.
    pub(crate) fn check(&self) -> Result<u64, LockError> {
        let mut log_size = 0;
        for (index, (path, expected)) in self.0.iter().enumerate() {
            match fs::metadata(path) {
                Ok(metadata) if identity(&metadata) == *expected => {
                    if index == 1 {
                        log_size = metadata.len();
                    }
                }
                Err(error) if !is_gone(&error) => return Err(unseen(&error)),
                _ => return Err(moved()),
            }
        }
        Ok(log_size)
    }
}

fn is_gone(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory)
}

#[cfg(unix)]
fn identity(metadata: &Metadata) -> Identity {
    use std::os::unix::fs::MetadataExt as _;
    (metadata.dev(), metadata.ino())
}

#[cfg(not(unix))]
fn identity(_: &Metadata) -> Identity {}

#[cfg(all(test, unix))]
mod tests {
    use syncguard_core::ErrorCode;

    use super::*;

    #[test]
    fn each_of_the_three_files_is_watched() {
        for victim in ["locks.db", "locks.db-wal", "locks.db-shm"] {
            for is_replaced in [false, true] {
                let folder = tempfile::tempdir().unwrap();
                let at = |name: &str| folder.path().join(name);
                let file = LockFile::find_or_create(&at("locks.db")).unwrap();
                fs::write(at("locks.db-wal"), "12345").unwrap();
                fs::write(at("locks.db-shm"), "").unwrap();
                let files = OpenFiles::of(&file).unwrap();
                assert_eq!(files.check().unwrap(), 5);
                fs::rename(at(victim), at("elsewhere")).unwrap();
                if is_replaced {
                    fs::write(at(victim), "").unwrap();
                }
                let error = files.check().unwrap_err();
                assert_eq!(error.code(), ErrorCode::Internal);
                fs::rename(at("elsewhere"), at(victim)).unwrap();
                files.check().unwrap();
            }
        }
    }
}
