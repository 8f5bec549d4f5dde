//! The result of a check of one kind of store.

use syncguard::{DynBackend, LockBackend as _};

use super::finding::Finding;
use crate::exit::{Failure, Status};

/// A connected store, and the findings of the checks for its kind.
pub(super) struct Examination {
    pub(super) backend: DynBackend,
    pub(super) findings: Vec<Finding>,
    /// The round trips of an acquire, and of a release.
    pub(super) round_trips: (u32, u32),
    /// The statement or rule that gives this user the rights that locks need.
    pub(super) access: Option<String>,
}

/// The findings of the library. What the store refuses is left to the probe of each operation.
///
/// # Errors
///
/// The error of a store that cannot be reached.
pub(super) async fn health(backend: &DynBackend) -> Result<Vec<Finding>, Failure> {
    let health = backend.health().await;
    if let Err(error) = health.reachability {
        let failure = Failure::from(error);
        if failure.status() == Status::UNAVAILABLE {
            return Err(failure);
        }
    }
    Ok(health.findings.into_iter().map(Finding::from).collect())
}
