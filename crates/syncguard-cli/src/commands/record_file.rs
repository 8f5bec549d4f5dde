//! The file with the record of a lock, which is made before the lock is taken: a lock without a
//! record could not be released.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use rustix::process::geteuid;

use crate::escape::escape_for_terminal;
use crate::exit::{Failure, Status};

/// The new, empty file for a lock. Dropping it removes the file unless a lock was written.
///
/// The open file has an advisory lock (`flock`), which ends with this process. An empty file without
/// one is left over from a process that was killed.
pub(super) struct NewFile {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl NewFile {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        if is_stdin(path) {
            return Err(Failure::usage("--save needs the name of a file; --json prints the lock"));
        }
        let name = shown(path);
        let file = match create(path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                open_left_over(path).ok_or_else(|| {
                    Failure::usage(format!(
                        "{name} exists, and may be the only record of another lock: `syncguard release --from {name}` \
                         releases that lock and removes the file. Or save this lock in another file"
                    ))
                })?
            }
            Err(error) => return Err(Failure::system(&format!("{name} cannot be created"), &error)),
        };
        // Some file systems know no such locks. There, a file that is left over is not used again.
        if matches!(file.try_lock(), Err(TryLockError::WouldBlock)) || !is_at(&file, path) {
            return Err(Failure::usage(format!(
                "{name} is the file of another `syncguard acquire`, which waits for its lock: save this lock in \
                 another file"
            )));
        }
        Ok(Self { path: path.to_owned(), file, is_written: false })
    }

    /// Writes the record. Fails if the file is not at its path any more: nobody would find it.
    pub(super) fn write(mut self, record: &str) -> Result<(), Failure> {
        let name = shown(&self.path);
        let written = write(&mut self.file, record).and_then(|()| sync_folder(&self.path));
        written.map_err(|error| Failure::system(&format!("{name} cannot be written"), &error))?;
        if !is_at(&self.file, &self.path) {
            let says = format!("{name} was removed or replaced while this command waited");
            return Err(Failure::new(Status::SYSTEM, says));
        }
        self.is_written = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_written && is_at(&self.file, &self.path) {
            // Nobody would see an error.
            let _ = fs::remove_file(&self.path);
        }
    }
}

pub(super) fn is_stdin(path: &Path) -> bool {
    path.as_os_str() == OsStr::new("-")
}

/// The name of the file for messages.
pub(super) fn shown(path: &Path) -> String {
    if is_stdin(path) {
        return "standard input".to_owned();
    }
    escape_for_terminal(&path.to_string_lossy())
}

/// Makes a new file that only this user may read.
pub(super) fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

/// An empty file that a process of this user has made and left. `None` for any other file.
fn open_left_over(path: &Path) -> Option<File> {
    // No link is followed, and no pipe is waited for.
    let flags = OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty()).ok()?);
    let kept_from_others = |found: &fs::Metadata| {
        let is_open = Mode::from_raw_mode(found.mode()).intersects(Mode::RWXG | Mode::RWXO);
        found.is_file() && found.uid() == geteuid().as_raw() && !is_open
    };
    file.metadata().ok().filter(kept_from_others)?;
    // Before the length is read: a process that had the lock may have written.
    if matches!(file.try_lock(), Err(TryLockError::Error(_))) {
        return None;
    }
    (file.metadata().ok()?.len() == 0).then_some(file)
}

/// Returns whether this open file is the one at the path.
fn is_at(file: &File, path: &Path) -> bool {
    let place = |found: fs::Metadata| (found.dev(), found.ino());
    let (open, named) = (file.metadata().map(place), fs::symlink_metadata(path).map(place));
    matches!((open, named), (Ok(open), Ok(named)) if open == named)
}

/// Writes the text, and waits until it survives a crash of the machine.
pub(super) fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes sure that the name of the file survives a crash of the machine.
pub(super) fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
