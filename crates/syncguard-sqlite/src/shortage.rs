//! The reason why a file cannot be opened, which SQLite does not tell: a permission, a descriptor or room on the disk is
//! missing.

use std::io;
use std::path::Path;

use syncguard_core::{ErrorCode, LockError};

use crate::error::{full, not_writable};

/// The reason why SQLite could not open the lock file or a file beside it, if it can be found.
pub(crate) fn explain(error: &rusqlite::Error, path: &Path) -> Option<LockError> {
    let folder = path.parent().unwrap_or(Path::new("."));
    // SQLite has closed its files by now.
    if let Some(error) = system::open_some(folder).err().as_ref().and_then(of_descriptors) {
        return Some(error);
    }
    if !(system::may_write(path) && system::may_write(folder)) {
        return Some(not_writable(error));
    }
    system::is_full(folder).then(|| full(error))
}

/// The error for a process or a machine that can open no more files, if that is what the system says.
pub(crate) fn of_descriptors(error: &io::Error) -> Option<LockError> {
    system::lacks_descriptors(error).then(|| {
        LockError::new(
            ErrorCode::ServiceUnavailable,
            "the lock file cannot be opened: the process or the machine has no file descriptor left (ulimit -n)",
        )
        .with_source(error)
    })
}

#[cfg(any(target_os = "linux", target_vendor = "apple"))]
mod system {
    use std::fs::File;
    use std::io;
    use std::path::Path;

    use rustix::fs::{Access, access, statvfs};
    use rustix::io::Errno;

    /// Opens as many files as SQLite does.
    pub(super) fn open_some(folder: &Path) -> io::Result<()> {
        (0..4).map(|_| File::open(folder)).collect::<io::Result<Vec<_>>>().map(drop)
    }

    pub(super) fn lacks_descriptors(error: &io::Error) -> bool {
        matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
    }

    pub(super) fn may_write(path: &Path) -> bool {
        access(path, Access::READ_OK | Access::WRITE_OK).is_ok()
    }

    /// Some file systems do not count their files.
    pub(super) fn is_full(folder: &Path) -> bool {
        statvfs(folder)
            .is_ok_and(|disk| disk.f_bavail == 0 || disk.f_files > 0 && disk.f_favail == 0)
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
mod system {
    use std::io;
    use std::path::Path;

    pub(super) fn open_some(_: &Path) -> io::Result<()> {
        Ok(())
    }

    pub(super) fn lacks_descriptors(_: &io::Error) -> bool {
        false
    }

    pub(super) fn may_write(_: &Path) -> bool {
        true
    }

    pub(super) fn is_full(_: &Path) -> bool {
        false
    }
}
