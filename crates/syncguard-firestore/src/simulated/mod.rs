//! For tests: a backend whose calls go to a simulated server instead of gRPC.

pub(crate) mod calls;

use std::sync::Arc;

use syncguard_core::LockError;

pub use self::calls::{Answers, Calling, Calls, Requests};
use crate::backend::FirestoreBackend;
use crate::channel::Channel;
use crate::config::FirestoreOptions;
use crate::service::{Service, ServiceMaker};

/// A backend that makes these calls.
///
/// # Errors
///
/// As [`FirestoreBackend::from_client`].
pub fn over(
    calls: Arc<dyn Calls>,
    options: FirestoreOptions,
) -> Result<FirestoreBackend, LockError> {
    let layout = options.check()?;
    let service = Service::Simulated(Arc::clone(&calls));
    let channel = Channel::new(service, Some(ServiceMaker::Simulated(calls)));
    FirestoreBackend::over(channel, layout, options)
}
