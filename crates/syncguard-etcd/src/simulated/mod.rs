//! For tests: a backend whose calls go to a simulated server instead of gRPC.

pub(crate) mod calls;

use std::sync::Arc;

use syncguard_core::LockError;

pub use self::calls::{Answers, Calling, Calls, Requests};
use crate::backend::EtcdBackend;
use crate::config::EtcdOptions;
use crate::members::{Maker, Members};

pub use tonic;

/// A backend that makes these calls.
///
/// # Errors
///
/// `InvalidArgument` for a bad option.
pub fn over(calls: Arc<dyn Calls>, options: EtcdOptions) -> Result<EtcdBackend, LockError> {
    let layout = options.check()?;
    EtcdBackend::over(Members::new(Maker::Simulated(calls))?, layout, options)
}
