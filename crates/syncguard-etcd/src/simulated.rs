//! For tests: a backend whose calls go to a simulated server instead of gRPC.

use std::sync::Arc;

use syncguard_core::LockError;
pub use tonic;

use crate::backend::EtcdBackend;
use crate::config::EtcdOptions;
use crate::members::Members;
pub use crate::service::{Answers, Calling, Cluster, Requests, Service};

/// A backend that makes these calls.
///
/// # Errors
///
/// `InvalidArgument` for a bad option.
pub fn over(cluster: Arc<dyn Cluster>, options: EtcdOptions) -> Result<EtcdBackend, LockError> {
    EtcdBackend::over(Members::new(cluster)?, options)
}
