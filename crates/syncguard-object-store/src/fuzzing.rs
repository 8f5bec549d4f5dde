//! Gives the fuzz targets of this repository access to the parsers of URLs and records.

use object_store::UpdateVersion;
use syncguard_core::{Key, LockError, LockInfo};

use crate::record::Version;

/// Reads a URL like `connect`, but does not connect.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, crate::ObjectStoreOptions::new()).map(drop)
}

/// Reads the lock in the object of a key.
pub fn read_lock(key: &str, bytes: &[u8]) -> Result<Option<LockInfo>, LockError> {
    let key = Key::new(key)?;
    let version = Version::read("name", bytes, UpdateVersion { e_tag: None, version: None })?;
    Ok(version.lock("name", &key)?.map(|held| held.record.into_info()))
}
