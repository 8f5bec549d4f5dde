//! What reads text and documents, for the fuzz targets of this repository.

use gcloud_sdk::google::firestore::v1::Document;
use syncguard_core::{Fence, LockError, LockInfo};

use crate::config::FirestoreOptions;
use crate::document::{Counter, Record};
use crate::url;

/// Reads a URL as `connect` does, and connects to nothing.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    url::parse(url, FirestoreOptions::new()).map(drop)
}

/// Reads the document of a lock.
///
/// # Errors
///
/// `Internal` for one that makes no sense as a lock.
pub fn read_lock(document: Document) -> Result<LockInfo, LockError> {
    Record::read(document).map(Record::into_info)
}

/// Reads the document of a fence counter: the last fence.
///
/// # Errors
///
/// `Internal` for one that makes no sense as a counter.
pub fn read_counter(document: Document) -> Result<Fence, LockError> {
    Counter::read(document).map(|counter| counter.last)
}
