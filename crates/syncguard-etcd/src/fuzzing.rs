//! Gives the fuzz targets of this repository access to the parsers of URLs and records.

use syncguard_core::{Fence, Key, LockError, LockInfo};

use crate::config::EtcdOptions;
use crate::record::{self, Held};
use crate::url;
use crate::wire::KeyValue;

/// Reads a URL like `connect`, but does not connect.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    url::parse(url, EtcdOptions::new()).map(drop)
}

/// Reads the record of this key's lock.
///
/// # Errors
///
/// `Internal` for a value that is not the lock of this key.
pub fn read_lock(key: &Key, value: &[u8]) -> Result<LockInfo, LockError> {
    let stored = KeyValue { value: value.to_vec(), ..KeyValue::default() };
    Held::read("l", key.expose(), stored).map(|held| held.record.into_info())
}

/// Reads the value of a fence counter.
///
/// # Errors
///
/// `Internal` for a value that is not a counter.
pub fn read_counter(value: &[u8]) -> Result<Option<Fence>, LockError> {
    let stored = KeyValue { value: value.to_vec(), ..KeyValue::default() };
    record::counter("f", Some(&stored))
}
