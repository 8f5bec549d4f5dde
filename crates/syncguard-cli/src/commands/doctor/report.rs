//! The results of the doctor's checks.

use super::cost::Cost;
use super::finding::{Finding, Level};

/// The report of the doctor.
#[derive(Default)]
pub(super) struct Report {
    pub(super) backend: &'static str,
    pub(super) findings: Vec<Finding>,
    pub(super) cost: Option<Cost>,
}

impl Report {
    pub(super) fn worst(&self) -> Level {
        self.findings.iter().map(|finding| finding.level).max().unwrap_or(Level::Green)
    }
}
