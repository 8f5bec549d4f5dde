//! The result of a check of one kind of store.

use syncguard::DynBackend;

use super::finding::Finding;

/// A connected store, and the findings of the checks for its kind.
pub(super) struct Examination {
    pub(super) backend: DynBackend,
    pub(super) findings: Vec<Finding>,
    /// The round trips of an acquire, and of a release.
    pub(super) round_trips: (u32, u32),
    /// The statement or rule that gives this user the rights that locks need.
    pub(super) access: Option<String>,
}
