//! For tests: a backend whose calls go to a simulated server instead of gRPC.

use std::sync::Arc;

use syncguard_core::{LockError, LockInfo};
pub use tonic;

use crate::backend::EtcdBackend;
use crate::config::EtcdOptions;
use crate::members::Members;
pub use crate::service::{Answers, Calling, Cluster, Requests, Service};

pub use crate::wire::*;

/// The number of calls that were answered.
#[must_use]
pub fn answers(backend: &EtcdBackend) -> u64 {
    backend.0.store().client.members.current.heard()
}

/// A backend that makes these calls.
///
/// # Errors
///
/// `InvalidArgument` for a bad option.
pub fn over(cluster: Arc<dyn Cluster>, options: EtcdOptions) -> Result<EtcdBackend, LockError> {
    EtcdBackend::over(Members::new(cluster)?, options)
}

/// For fuzz targets: reads a URL as `connect` does, and connects to nothing.
///
/// # Errors
///
/// `InvalidArgument` for a URL that `connect` refuses.
pub fn read_url(url: &str) -> Result<(), LockError> {
    crate::url::parse(url, EtcdOptions::new()).map(drop)
}

/// For fuzz targets: reads the record of the lock of a key.
///
/// # Errors
///
/// `Internal` for a corrupt record.
pub fn read_lock(key: &str, value: Vec<u8>) -> Result<LockInfo, LockError> {
    let stored = KeyValue { value, ..KeyValue::default() };
    crate::record::lock("name", key, stored).map(|held| held.record.into_info())
}
