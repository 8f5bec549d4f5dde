//! For tests: a backend whose calls go to a simulated server instead of gRPC.

use std::sync::Arc;

use gcloud_sdk::google::firestore::v1::Document;
use syncguard_core::{Fence, LockError, LockInfo};

use crate::backend::FirestoreBackend;
use crate::config::FirestoreOptions;
use crate::document;
pub use crate::service::{Answers, Calling, Maker, Requests, Service};

/// A backend that makes these calls.
///
/// # Errors
///
/// As [`FirestoreBackend::from_client`].
pub fn over(
    service: Arc<dyn Service>,
    maker: Box<dyn Maker>,
    options: FirestoreOptions,
) -> Result<FirestoreBackend, LockError> {
    FirestoreBackend::over(service, Some(maker), options)
}

/// For fuzz targets: reads a URL as `connect` does, and connects to nothing.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, FirestoreOptions::new()).map(drop)
}

/// For fuzz targets: reads the document of a lock.
///
/// # Errors
///
/// `Internal` for a corrupt document.
pub fn read_lock(document: Document) -> Result<LockInfo, LockError> {
    document::lock(document).map(|held| held.record.into_info())
}

/// For fuzz targets: reads the document of a fence counter, and returns the last fence.
///
/// # Errors
///
/// `Internal` for a corrupt document.
pub fn read_counter(document: &Document) -> Result<Fence, LockError> {
    document::counter(document).map(|counter| counter.last)
}
