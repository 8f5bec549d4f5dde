//! Gives the fuzz targets of this repository access to the parsers of URLs and records.

use syncguard_core::{LockError, LockInfo};

use crate::record;
use crate::wire::KeyValue;

/// Reads a URL like `connect`, but does not connect.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, crate::EtcdOptions::new()).map(drop)
}

/// Reads the record of the lock of a key.
pub fn read_lock(key: &str, value: Vec<u8>) -> Result<LockInfo, LockError> {
    record::lock("name", key, KeyValue { value, ..KeyValue::default() })
        .map(|held| held.record.into_info())
}
