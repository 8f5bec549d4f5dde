//! A held lock as a file: `acquire --save` writes it, `extend` and `release` read it. The file may be
//! the only record of the lock.

use std::fs::{self, File, TryLockError};
use std::hash::{BuildHasher as _, RandomState};
use std::io::{self, Read as _};
use std::path::Path;

use serde_json::{Value, json};
use syncguard::{Key, LockId, Timestamp};

use super::record_file::{create, is_stdin, shown, sync_folder, write};
use crate::escape::{escape_for_terminal, escape_json};
use crate::exit::Failure;
use crate::store::Store;

/// A held lock. Its lock id lets each reader extend and release it, so only its user may read the
/// file.
pub(super) struct SavedLock {
    /// The place of its store. Files of other programs may lack it.
    pub(super) store: Option<String>,
    pub(super) key: String,
    pub(super) lock_id: LockId,
    pub(super) fence: String,
    pub(super) expires_at: Timestamp,
}

impl SavedLock {
    /// Reads a lock of this store from a file, or from standard input if the path is `-`.
    pub(super) fn read(path: &Path, store: &Store) -> Result<Self, Failure> {
        let name = shown(path);
        let unreadable = |error| Failure::usage(format!("{name} cannot be read: {error}"));
        let mut text = String::new();
        if is_stdin(path) {
            io::stdin().lock().read_to_string(&mut text).map_err(unreadable)?;
        } else {
            let mut file = File::open(path).map_err(unreadable)?;
            file.read_to_string(&mut text).map_err(unreadable)?;
            let waits = || matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock));
            if text.is_empty() && waits() {
                return Err(Failure::usage(format!(
                    "{name} is empty: the `syncguard acquire` that made it still waits for its lock"
                )));
            }
        }
        if text.trim().is_empty() {
            return Err(Failure::usage(format!(
                "{name} is empty: the `syncguard acquire` that made it has ended without a lock"
            )));
        }
        let lock = Self::parse(&text).ok_or_else(|| {
            Failure::usage(format!("{name} holds no lock: `syncguard acquire` writes such a file"))
        })?;
        match &lock.store {
            Some(place) if *place != store.place() => Err(Failure::usage(format!(
                "the lock in {name} is in the store {}, and this command uses {}: name the first one with --store or \
                 SYNCGUARD_STORE, as for `syncguard acquire`",
                escape_for_terminal(place),
                store.place()
            ))),
            _ => Ok(lock),
        }
    }

    fn parse(text: &str) -> Option<Self> {
        let json: Value = serde_json::from_str(text).ok()?;
        let key = json.get("key")?.as_str()?.to_owned();
        Key::new(key.as_str()).ok()?;
        Some(Self {
            store: json.get("store").and_then(Value::as_str).map(str::to_owned),
            key,
            lock_id: LockId::new(json.get("lockId")?.as_str()?).ok()?,
            fence: json.get("fence")?.as_str()?.to_owned(),
            expires_at: Timestamp::from_millis(json.get("expiresAtMs")?.as_u64()?).ok()?,
        })
    }

    pub(super) fn as_json(&self) -> Value {
        let mut json = json!({
            "key": self.key,
            "lockId": self.lock_id.expose(),
            "fence": self.fence,
            "expiresAtMs": self.expires_at.as_millis(),
        });
        if let Some(store) = &self.store {
            json["store"] = store.as_str().into();
        }
        json
    }

    pub(super) fn line(&self) -> String {
        format!("{}\n", escape_json(&self.as_json().to_string()))
    }

    /// Replaces the file in one step: a reader sees the old lock or the new one.
    pub(super) fn replace(&self, path: &Path) -> io::Result<()> {
        // The file itself, and not a link to it.
        let path = fs::canonicalize(path)?;
        // The name is random, since the same process id may run in another container, and short,
        // since that of the file may have the longest length.
        let random = RandomState::new().hash_one(std::process::id());
        let other = path.with_file_name(format!(".syncguard-{random:016x}"));
        let mut file = create(&other)?;
        let replaced = write(&mut file, &self.line())
            .and_then(|()| self.check_recorded(&path))
            .and_then(|()| fs::rename(&other, &path));
        if replaced.is_err() {
            // The first error is the reason.
            let _ = fs::remove_file(&other);
        }
        replaced.and_then(|()| sync_folder(&path))
    }

    /// Removes the file.
    pub(super) fn remove(&self, path: &Path) -> io::Result<()> {
        self.check_recorded(path)?;
        fs::remove_file(path)
    }

    /// Fails if the file has become that of another lock since it was read.
    fn check_recorded(&self, path: &Path) -> io::Result<()> {
        match Self::parse(&fs::read_to_string(path)?) {
            Some(lock) if lock.lock_id == self.lock_id => Ok(()),
            _ => Err(io::Error::other("it was replaced by another file meanwhile")),
        }
    }
}
