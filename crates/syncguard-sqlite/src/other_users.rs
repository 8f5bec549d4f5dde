//! What other users of the machine may do to the lock file.

use crate::file::LockFile;

/// Rights of other users.
pub(crate) struct Rights {
    /// Others may read or write the file.
    pub(crate) open_file: bool,
    /// Others may put other files in the place of the file.
    pub(crate) open_folder: bool,
    /// The file or its folder belongs to another user.
    pub(crate) foreign_owner: bool,
}

/// Finds the rights in the owners and modes of the file and of the folders above it. A group that may write the file
/// shares the locks on purpose, and may also write in the folder.
#[cfg(any(target_os = "linux", target_vendor = "apple"))]
pub(crate) fn rights(file: &LockFile) -> Rights {
    use std::fs::{self, Metadata};
    use std::os::unix::fs::MetadataExt as _;

    const STICKY: u32 = 0o1000;
    const GROUP_WRITES: u32 = 0o020;
    const OTHERS_WRITE: u32 = 0o002;

    let this_user = rustix::process::geteuid().as_raw();
    let is_foreign = |found: &Metadata| found.uid() != this_user && found.uid() != 0;
    let lock_file = &file.metadata;
    let shares =
        |folder: &Metadata| lock_file.mode() & GROUP_WRITES != 0 && lock_file.gid() == folder.gid();
    let is_open = |folder: &Metadata| {
        let group = folder.mode() & GROUP_WRITES != 0 && !shares(folder);
        group || folder.mode() & OTHERS_WRITE != 0
    };
    // A folder whose mode the system does not tell is left out.
    let mut folders = file.path.ancestors().skip(1).filter_map(|folder| fs::metadata(folder).ok());
    let folder = folders.next();
    // Only the owner of a file may rename it in a sticky folder, but every user may put files beside it.
    let open_folder = folder.as_ref().is_some_and(is_open)
        || folders.any(|above| above.mode() & STICKY == 0 && is_open(&above));
    Rights {
        open_file: lock_file.mode() & 0o007 != 0,
        open_folder,
        foreign_owner: is_foreign(lock_file) || folder.as_ref().is_some_and(is_foreign),
    }
}

#[cfg(not(any(target_os = "linux", target_vendor = "apple")))]
pub(crate) fn rights(_: &LockFile) -> Rights {
    Rights { open_file: false, open_folder: false, foreign_owner: false }
}
