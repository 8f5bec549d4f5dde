//! For tests: a backend whose calls go to a simulated server instead of gRPC.

use std::sync::Arc;

use syncguard_core::LockError;

use crate::backend::FirestoreBackend;
use crate::config::FirestoreOptions;
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
