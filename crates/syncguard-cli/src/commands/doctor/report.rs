//! The results of the doctor's checks.

use syncguard::DynBackend;

use super::cost::Cost;
use super::finding::Finding;

/// The report of the doctor.
#[derive(Default)]
pub(super) struct Report {
    pub(super) backend: &'static str,
    pub(super) findings: Vec<Finding>,
    pub(super) cost: Option<Cost>,
}

/// A connected store, and the findings of the checks for its kind.
pub(super) struct Examination {
    pub(super) backend: DynBackend,
    pub(super) findings: Vec<Finding>,
    /// The round trips of an acquire, and of a release.
    pub(super) round_trips: (u32, u32),
    /// What gives this user the rights that locks need.
    pub(super) access: Option<String>,
}
