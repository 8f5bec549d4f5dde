//! Gives the fuzz targets of this repository access to the parsers of URLs and documents.

use gcloud_sdk::google::firestore::v1::Document;
use syncguard_core::{Fence, LockError, LockInfo};

use crate::document;

/// Reads a URL like `connect`, but does not connect.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, crate::FirestoreOptions::new()).map(drop)
}

/// Reads the document of a lock.
pub fn read_lock(document: Document) -> Result<LockInfo, LockError> {
    document::lock(document).map(|held| held.record.into_info())
}

/// Reads the document of a fence counter and returns the last fence.
pub fn read_counter(document: &Document) -> Result<Fence, LockError> {
    document::counter(document).map(|counter| counter.last)
}
