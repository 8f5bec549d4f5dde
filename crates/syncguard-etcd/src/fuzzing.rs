//! Gives the fuzz targets of this repository access to the parsers of URLs and records.

use syncguard_core::{Fence, LockError, LockInfo};

use crate::record::{self, Held};
use crate::wire::KeyValue;

/// Reads a URL like `connect`, but does not connect.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, crate::EtcdOptions::new()).map(drop)
}

/// Reads the record of the lock of a key.
pub fn read_lock(key: &str, value: &[u8]) -> Result<LockInfo, LockError> {
    Held::read("name", key, stored(value)).map(|held| held.record.into_info())
}

/// Reads a fence counter and returns the last fence.
pub fn read_counter(value: &[u8]) -> Result<Option<Fence>, LockError> {
    record::counter("name", Some(&stored(value)))
}

fn stored(value: &[u8]) -> KeyValue {
    KeyValue { value: value.to_vec(), ..KeyValue::default() }
}
