//! What was found.

use std::sync::Arc;

use crate::invariant::{Invariant, Violation};
use crate::operation::Operation;

/// More are only counted.
const KEPT: usize = 1000;

#[derive(Debug, Default)]
pub(super) struct Found {
    pub(super) violations: Vec<Violation>,
    pub(super) count: u64,
}

impl Found {
    pub(super) fn add(
        &mut self,
        invariant: Invariant,
        what: String,
        proof: impl IntoIterator<Item = Arc<Operation>>,
    ) {
        self.count += 1;
        if self.violations.len() < KEPT {
            let proof = proof.into_iter().map(|operation| (*operation).clone()).collect();
            self.violations.push(Violation { invariant, what, proof });
        }
    }
}
