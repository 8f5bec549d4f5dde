//! A held lock as a file: `acquire --save` writes it, `extend` and `release` read it.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use syncguard::{Key, LockId, Timestamp};

use crate::escape::{escape_for_terminal, escape_json};
use crate::exit::Failure;

/// A held lock. Its lock id lets each reader extend and release it, so only its user may read the
/// file.
pub(super) struct SavedLock {
    pub(super) key: String,
    pub(super) lock_id: LockId,
    pub(super) fence: String,
    pub(super) expires_at: Timestamp,
}

impl SavedLock {
    /// Reads a lock from a file, or from standard input if the path is `-`.
    pub(super) fn read(path: &Path) -> Result<Self, Failure> {
        let name = shown(path);
        let mut text = String::new();
        let read = if is_stdin(path) {
            io::stdin().lock().read_to_string(&mut text)
        } else {
            File::open(path).and_then(|mut file| file.read_to_string(&mut text))
        };
        read.map_err(|error| Failure::usage(format!("{name} cannot be read: {error}")))?;
        if text.trim().is_empty() {
            return Err(Failure::usage(format!(
                "{name} is empty: the `syncguard acquire` that made it still waits, or was killed before it had the lock"
            )));
        }
        Self::parse(&text).ok_or_else(|| {
            Failure::usage(format!("{name} holds no lock: `syncguard acquire` writes such a file"))
        })
    }

    fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let key = json.get("key")?.as_str()?.to_owned();
        Key::new(key.as_str()).ok()?;
        Some(Self {
            key,
            lock_id: LockId::new(json.get("lockId")?.as_str()?).ok()?,
            fence: json.get("fence")?.as_str()?.to_owned(),
            expires_at: Timestamp::from_millis(json.get("expiresAtMs")?.as_u64()?).ok()?,
        })
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "key": self.key,
            "lockId": self.lock_id.expose(),
            "fence": self.fence,
            "expiresAtMs": self.expires_at.as_millis(),
        })
    }

    fn line(&self) -> String {
        format!("{}\n", escape_json(&self.as_json().to_string()))
    }

    /// Replaces the file in one step: a reader sees the old lock or the new one.
    pub(super) fn replace(&self, path: &Path) -> io::Result<()> {
        // The file itself, and not a link to it.
        let path = fs::canonicalize(path)?;
        let name = path.file_name().unwrap_or_default().display().to_string();
        let other = path.with_file_name(format!(".{name}.{}.new", std::process::id()));
        let replaced = create(&other)
            .and_then(|mut file| write(&mut file, &self.line()))
            .and_then(|()| fs::rename(&other, &path))
            .and_then(|()| sync_folder(&path));
        if replaced.is_err() {
            // The file may not exist.
            let _ = fs::remove_file(&other);
        }
        replaced
    }
}

/// The new, empty file for a lock. Dropping it removes the file unless a lock was written.
pub(super) struct NewFile {
    path: PathBuf,
    file: File,
    is_written: bool,
}

impl NewFile {
    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        let name = shown(path);
        let file = create(path).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => Failure::usage(format!(
                "{name} exists, and may be the only record of another lock: `syncguard release --from {name}` releases \
                 that lock and removes the file. Or save this lock in another file"
            )),
            _ => Failure::system(&format!("{name} cannot be created"), &error),
        })?;
        Ok(Self { path: path.to_owned(), file, is_written: false })
    }

    pub(super) fn write(mut self, lock: &SavedLock) -> Result<(), Failure> {
        let written = write(&mut self.file, &lock.line()).and_then(|()| sync_folder(&self.path));
        written.map_err(|error| {
            Failure::system(&format!("{} cannot be written", shown(&self.path)), &error)
        })?;
        self.is_written = true;
        Ok(())
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.is_written {
            // Somebody may have removed it.
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

fn create(path: &Path) -> io::Result<File> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
}

fn write(file: &mut File, text: &str) -> io::Result<()> {
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// Makes sure that the name of the file survives a crash of the machine.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}
