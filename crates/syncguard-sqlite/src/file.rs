//! Finding, creating and checking the lock file.

use std::fs::{self, Metadata, OpenOptions};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};

use syncguard_core::{ErrorCode, LockError};

use crate::error::damaged;
use crate::file_system::Kind;
use crate::mounted;
use crate::shortage;

/// A lock file that has passed the checks. Its path has no symbolic link in it.
#[derive(Debug)]
pub(crate) struct LockFile {
    pub(crate) path: PathBuf,
    pub(crate) metadata: Metadata,
    pub(crate) kind: Kind,
}

impl LockFile {
    /// Finds the file, or creates an empty one.
    ///
    /// Never opens an existing file: closing it would end the locks that SQLite has on this file in this
    /// process.
    pub(crate) fn find_or_create(path: &Path) -> Result<Self, LockError> {
        let absolute = std::path::absolute(path).map_err(|_| {
            LockError::invalid_argument(
                "the path of the lock file is empty, or cannot be made absolute",
            )
        })?;
        let folder = absolute.parent().filter(|_| absolute.file_name().is_some());
        let folder = folder.ok_or_else(|| {
            LockError::invalid_argument("the path of the lock file names no file")
        })?;
        check_folder(folder)?;
        Kind::of(folder)?;
        create(&absolute)?;
        let found = |error| cannot("the lock file cannot be found", &error);
        let path = fs::canonicalize(&absolute).map_err(found)?;
        let metadata = fs::metadata(&path).map_err(found)?;
        let kind = Kind::of(&path)?;
        if !metadata.is_file() {
            return Err(LockError::invalid_argument(
                "the path of the lock file names no regular file",
            ));
        }
        // SQLite treats a file of one byte as empty, and would start a new database in it.
        if (1..HEADER).contains(&metadata.len()) {
            return Err(damaged());
        }
        #[cfg(unix)]
        if std::os::unix::fs::MetadataExt::nlink(&metadata) > 1 {
            return Err(LockError::invalid_argument(
                "the lock file has more than one name (hard links); under different names SQLite takes it for different files",
            ));
        }
        mounted::check(&path)?;
        Ok(Self { path, metadata, kind })
    }
}

/// Creates an empty file if none exists.
///
/// Closing a file ends the locks that this process has on it. So the new file is closed before another
/// thread of this process can find and open it.
fn create(path: &Path) -> Result<(), LockError> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _alone = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let mut new = OpenOptions::new();
    new.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut new, 0o600);
    match new.open(path) {
        Ok(file) => {
            drop(file);
            Ok(())
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(()),
        Err(error) => Err(cannot("the lock file cannot be created", &error)),
    }
}

/// The size of the header of every database, in bytes.
const HEADER: u64 = 100;

fn check_folder(folder: &Path) -> Result<(), LockError> {
    match fs::metadata(folder) {
        Ok(metadata) if metadata.is_dir() => Ok(()),
        Ok(_) => Err(LockError::invalid_argument("the folder of the lock file is not a folder")),
        Err(error) if error.kind() == ErrorKind::NotFound => Err(LockError::invalid_argument(
            "the folder of the lock file does not exist, and is not created automatically",
        )),
        Err(error) => Err(cannot("the folder of the lock file cannot be used", &error)),
    }
}

fn cannot(what: &'static str, error: &io::Error) -> LockError {
    if let Some(error) = shortage::of_descriptors(error) {
        return error;
    }
    let code = match error.kind() {
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => ErrorCode::AuthFailed,
        ErrorKind::InvalidInput | ErrorKind::NotADirectory | ErrorKind::InvalidFilename => {
            ErrorCode::InvalidArgument
        }
        _ => ErrorCode::ServiceUnavailable,
    };
    LockError::new(code, what).with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(path: &Path) -> LockError {
        LockFile::find_or_create(path).unwrap_err()
    }

    #[test]
    fn a_file_is_made_for_its_owner_alone_and_found_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let made = LockFile::find_or_create(&path).unwrap();
        let found = LockFile::find_or_create(&path).unwrap();
        assert_eq!(made.path, found.path);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(made.metadata.permissions().mode() & 0o777, 0o600);
        }
    }

    #[test]
    fn what_is_no_file_for_locks_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let missing = refused(&folder.path().join("no/locks.db"));
        assert_eq!(missing.code(), ErrorCode::InvalidArgument);
        assert!(missing.message().contains("does not exist"));
        assert!(!folder.path().join("no").exists());
        for path in [folder.path(), Path::new("/"), Path::new("")] {
            assert_eq!(refused(path).code(), ErrorCode::InvalidArgument, "{path:?}");
        }
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        assert_eq!(refused(&file.join("locks.db")).code(), ErrorCode::InvalidArgument);
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed_or_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("locks.db");
        let file = LockFile::find_or_create(&path).unwrap();
        let link = folder.path().join("link.db");
        std::os::unix::fs::symlink(&path, &link).unwrap();
        assert_eq!(LockFile::find_or_create(&link).unwrap().path, file.path);
        fs::hard_link(&path, folder.path().join("second.db")).unwrap();
        assert!(refused(&path).message().contains("hard links"));
    }
}
